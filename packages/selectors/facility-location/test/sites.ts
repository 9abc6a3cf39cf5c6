import { cpu, readCpu } from '@kv/cpu';
import type { DenseArray } from '@kv/core';
import type { KernelInputs, KernelSize } from '@kv/laws';
import { firstGains, greedyCover } from '../src/index.ts';
import type { Site } from './facility-location.oracle.ts';

export const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround(x - Math.floor(x));
  };
export const put = ({ data, shape }: DenseArray) => cpu.ops.from({ data, shape });
export const flat = ({ vectors }: Site) => ({
  data: Float32Array.from(vectors.flat()),
  shape: [1, vectors.length, vectors[0].length],
});

/** Weights of at least 0 and vectors without ties: gains closer than f32 can tell have no right order. */
export const siteOf = (n: number, d: number, seed: number): Site => ({
  weights: Array.from({ length: n }, (_, i) => Math.fround(noise(seed)(i) + 0.05)),
  vectors: Array.from({ length: n }, (_, i) =>
    Array.from({ length: d }, (_c, c) => Math.fround(noise(seed + 1)(i * d + c) * 4 - 2)),
  ),
});
/** Rows that share vectors of small whole numbers, which are exact in f32, whatever their length; masks and budgets. */
const made = ({ rows: each, slots, lengths, seed }: KernelSize): KernelInputs => {
  const d = 3;
  const pick = (k: number, count: number, f: (x: number) => number) =>
    Float32Array.from({ length: count }, (_, i) => f(Math.floor(noise(seed + k)(i) * 8)));
  const row = (data: Float32Array) => ({ data, shape: [each, slots] });
  const inputs = {
    weights: { ...row(pick(1, each * slots, (x) => x / 8)), lengths },
    vectors: { data: pick(2, slots * d, (x) => (x - 3) / 4), shape: [1, slots, d] },
    budgets: { data: pick(3, each, (x) => x), shape: [each, 1] },
  };
  const at = (name: keyof typeof inputs) => put({ data: inputs[name].data, shape: inputs[name].shape });
  const held = lengths && cpu.ops.from({ data: Uint32Array.from(lengths), shape: [each] }, 'u32');
  const gains = cpu.ops.kernel(firstGains, {
    weights: cpu.ops.from(row(inputs.weights.data), 'f32', held),
    vectors: at('vectors'),
    budgets: at('budgets'),
  });
  return {
    inputs: {
      ...inputs,
      gains: row(Float32Array.from(readCpu(gains).data)),
      mask: { ...row(pick(4, each * slots, (x) => (x === 0 ? 1 : x === 1 ? -1 : 0))), lengths },
    },
  };
};
const first = (size: KernelSize): KernelInputs => {
  const { weights, vectors, budgets } = made(size).inputs;
  return { inputs: { weights, vectors, budgets } };
};
/** Name, kernel, and what makes its inputs. */
export const kernels = [
  ['first-gains', firstGains, first],
  ['greedy', greedyCover, made],
] as const;
