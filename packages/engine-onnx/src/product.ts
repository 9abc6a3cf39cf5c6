import { dense, type Matrix, type MatrixPart } from '@kv/checkpoints';
import type { GraphWriter } from './graph.ts';
import { codesOf, fourBits, kindOf, type Codes } from './stored.ts';

/**
 * The form of weights. `f32`: f32 numbers. `stored`: quantised types as stored, multiplied with activations rounded to
 * 8 bits in blocks (`accuracy_level` 4). `q4`: quantised types as stored, all others rounded to 4 bits, activations in
 * f32.
 */
export type WeightForm = 'f32' | 'stored' | 'q4';

/** Adds `x Wᵀ + bias`, x `[m, inputs]`. */
export function product(
  graph: GraphWriter,
  x: string,
  weight: Matrix,
  bias: Float32Array | undefined,
  form: WeightForm,
): string {
  const { inputs } = weight,
    level = form === 'stored' ? 4 : 1;
  const runs: readonly Run[] = form === 'f32' ? [{ kind: undefined, parts: weight.parts }] : sameKinds(weight.parts);
  if (form !== 'q4' && runs.length === 1 && runs[0].kind === undefined) return floats(graph, x, weight, bias);
  const columns = runs.map(({ kind, parts }) => {
    const part = { inputs, outputs: parts.reduce((n, { rows }) => n + rows, 0), parts };
    if (kind !== undefined) return codes(graph, x, codesOf(parts, inputs), inputs, level);
    return form === 'q4'
      ? codes(graph, x, fourBits(dense(part), inputs), inputs, level)
      : floats(graph, x, part, undefined);
  });
  const all = columns.length === 1 ? columns[0] : graph.op('Concat', columns, { axis: 1 });
  return bias === undefined ? all : graph.op('Add', [all, graph.floats(bias, [bias.length])]);
}

/** Adjacent parts that one product can hold. */
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
 * Adds a product of codes around a constant middle, plus block sums of x times the shifts: numbers as zero points would
 * run 40 times slower.
 */
function codes(
  graph: GraphWriter,
  x: string,
  { bits, block, rows, codes: packed, scales, shifts }: Codes,
  inputs: number,
  level: 1 | 4,
): string {
  const blocks = Math.ceil(inputs / block);
  const weight = [graph.bytes(packed, [rows, blocks, (block * bits) / 8]), graph.floats(scales, [rows * blocks])];
  const y = graph.contrib('MatMulNBits', [x, ...weight], {
    K: inputs,
    N: rows,
    bits,
    block_size: block,
    accuracy_level: level,
  });
  if (shifts === undefined) return y;
  const sums = graph.op('ReduceSum', [graph.op('Reshape', [x, graph.ints(-1, blocks, block)]), graph.ints(2)], {
    keepdims: 0,
  });
  return graph.op('Gemm', [sums, graph.floats(shifts, [blocks, rows]), y]);
}
