import type { Commands, Gpu } from '@kv/gpu';
import { numbers, random } from '@kv/gpu-testing';
import type { Matrix } from '@kv/checkpoints';
import { columns } from '../src/rows.ts';
import { encodeEmbedding } from '../src/operations.ts';
import { encodeLinear, rowsOf, uploadMatrix } from '../src/index.ts';
import { near, twice, ulp } from './device.ts';
import { viewed } from './rows.oracle.ts';
import { CANCELS, storedBytes, storedNumbers, type Stored } from './weights.oracle.ts';

/** A matrix of parts of several types, and its numbers. */
export function matrixOf(
  seed: number,
  inputs: number,
  parts: readonly (readonly [Stored, number])[],
): { readonly matrix: Matrix; readonly numbers: number[] } {
  const next = random(seed + 31),
    stored = parts.map(([type, rows]) => ({ type, rows, bytes: storedBytes(type, rows, inputs, next) }));
  return {
    matrix: { inputs, outputs: parts.reduce((n, [, rows]) => n + rows, 0), parts: stored },
    numbers: stored.flatMap(({ type, bytes }) => storedNumbers(type, bytes)),
  };
}
const cancelling = (parts: Case['parts']): number => Math.max(...parts.map(([type]) => CANCELS[type] ?? 0)); // d q + m
export type Case = { readonly inputs: number; readonly parts: readonly (readonly [Stored, number])[] };
/**
 * Layout around the product: x and the residual are columns of wider rows, the weight is uploaded in bindings of at
 * most this many bytes.
 */
export interface Around {
  readonly seed: number;
  readonly m: number;
  readonly before: number;
  readonly after: number;
  readonly bias: boolean;
  readonly residual: boolean;
  readonly binding: number;
  readonly half?: boolean;
}

/** The product of a case. */
export async function product(
  gpu: Gpu,
  { inputs, parts }: Case,
  { seed, m, before, after, bias, residual, binding, half = false }: Around,
): Promise<void> {
  const { matrix, numbers: w } = matrixOf(seed, inputs, parts),
    { outputs } = matrix,
    stride = before + inputs + after,
    wide = outputs + 2;
  const x = numbers(seed, m * stride),
    shift = numbers(seed + 1, outputs),
    rest = numbers(seed + 2, m * wide),
    table = viewed(x, m, before, stride, inputs);
  const build = (bindingBytes: number) => (commands: Commands) => {
    const out = commands.make([m, outputs]),
      input = columns(rowsOf(commands.upload(x, [m, stride]), stride), before, inputs);
    encodeLinear(
      commands,
      input,
      m,
      uploadMatrix(commands, matrix, bindingBytes, half),
      out,
      bias ? commands.upload(shift, [outputs]) : undefined,
      residual ? columns(rowsOf(commands.upload(rest, [m, wide]), wide), 1, outputs) : undefined,
    );
    return [out];
  };
  const [got] = await twice(gpu, build(binding)),
    [want, scale, halves]: [number[], number[], number[]] = [[], [], []];
  const cancels = cancelling(parts);
  for (let r = 0; r < m; r++)
    for (let o = 0; o < outputs; o++) {
      let rough = 0,
        sum = (bias ? shift[o] : 0) + (residual ? rest[r * wide + 1 + o] : 0),
        size = (bias ? Math.abs(shift[o]) : 0) + (residual ? Math.abs(rest[r * wide + 1 + o]) : 0);
      for (let i = 0; i < inputs; i++) {
        const v = table[r][i],
          term = v * w[o * inputs + i];
        sum += term;
        size += Math.abs(term) + cancels * Math.abs(v);
        rough += 6 * 2 ** -11 * Math.abs(term) + 2 ** -14 * (Math.abs(v) + Math.abs(w[o * inputs + i]) + 4);
      }
      want.push(sum);
      scale.push(size);
      halves.push(half ? rough : 0);
    }
  // n products and additions in f32, in whatever order, and what a quantised number is rounded to; in f16 both numbers,
  // their product and three sums, and subnormal ones may be 0
  near(got, want, (at, y) => (inputs + 4) * 2 ** -24 * scale[at] + halves[at] + ulp(y));
}

/** Embedding rows of any ids. */
export async function embedded(gpu: Gpu, { inputs, parts }: Case, { seed, m, binding }: Around): Promise<void> {
  const { matrix, numbers: w } = matrixOf(seed, inputs, parts),
    next = random(seed),
    ids = Uint32Array.from({ length: m }, () => Math.floor(next() * matrix.outputs));
  const [got] = await twice(gpu, (commands) => [
    encodeEmbedding(commands, commands.upload(ids, [m]), m, uploadMatrix(commands, matrix, binding), 1.5).tensor,
  ]);
  const want = [...ids].flatMap((id) => w.slice(id * inputs, (id + 1) * inputs).map((v) => 1.5 * v));
  near(got, want, (_, y) => 2 * ulp(y) + cancelling(parts) * 2 ** -24);
}
