import { dense, type Matrix, type MatrixPart } from '../checkpoint/matrix.ts';
import type { GraphWriter } from './graph.ts';
import { codesOf, kindOf } from './stored.ts';

/**
 * As f32 numbers, or quantised types as they are stored, multiplied with activations rounded to 8 bits in blocks
 * (`accuracy_level` 4).
 */
export type WeightForm = 'f32' | 'stored';

/** `x Wᵀ + bias`, x `[m, inputs]`. */
export function product(
  graph: GraphWriter,
  x: string,
  weight: Matrix,
  bias: Float32Array | undefined,
  form: WeightForm,
): string {
  const { inputs } = weight;
  const runs: readonly Run[] = form === 'f32' ? [{ kind: undefined, parts: weight.parts }] : sameKinds(weight.parts);
  if (runs.length === 1 && runs[0].kind === undefined) return floats(graph, x, weight, bias);
  const columns = runs.map(({ kind, parts }) => {
    const outputs = parts.reduce((n, { rows }) => n + rows, 0);
    return kind === undefined
      ? floats(graph, x, { inputs, outputs, parts }, undefined)
      : codes(graph, x, parts, inputs);
  });
  const all = columns.length === 1 ? columns[0] : graph.op('Concat', columns, { axis: 1 });
  return bias === undefined ? all : graph.op('Add', [all, graph.floats(bias, [bias.length])]);
}

/** Neighbouring parts that one product can hold. */
interface Run {
  readonly kind: string | undefined;
  readonly parts: readonly MatrixPart[];
}

function sameKinds(parts: readonly MatrixPart[]): Run[] {
  const runs: { readonly kind: string | undefined; readonly parts: MatrixPart[] }[] = [];
  for (const part of parts) {
    const kind = kindOf(part.type),
      last = runs.at(-1);
    if (last !== undefined && last.kind === kind) last.parts.push(part);
    else runs.push({ kind, parts: [part] });
  }
  return runs;
}

function floats(graph: GraphWriter, x: string, weight: Matrix, bias: Float32Array | undefined): string {
  const w = graph.floats(dense(weight), [weight.outputs, weight.inputs]);
  return graph.op('Gemm', [x, w, ...(bias === undefined ? [] : [graph.floats(bias, [bias.length])])], { transB: 1 });
}

/**
 * Codes around a constant middle, and block sums of x times the shifts: zero points that are numbers would run 40 times
 * slower.
 */
function codes(graph: GraphWriter, x: string, parts: readonly MatrixPart[], inputs: number): string {
  const { bits, block, rows, codes: packed, scales, shifts } = codesOf(parts, inputs),
    blocks = inputs / block;
  const weight = [graph.bytes(packed, [rows, blocks, (block * bits) / 8]), graph.floats(scales, [rows * blocks])];
  const y = graph.contrib('MatMulNBits', [x, ...weight], {
    K: inputs,
    N: rows,
    bits,
    block_size: block,
    accuracy_level: 4,
  });
  if (shifts === undefined) return y;
  const sums = graph.op('ReduceSum', [graph.op('Reshape', [x, graph.ints(-1, blocks, block)]), graph.ints(2)], {
    keepdims: 0,
  });
  return graph.op('Gemm', [sums, graph.floats(shifts, [blocks, rows]), y]);
}
