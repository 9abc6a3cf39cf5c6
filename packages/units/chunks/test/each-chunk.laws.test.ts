import { describe, test } from 'vitest';
import { keys, positions, scorer } from '@kv/core';
import * as laws from '@kv/laws';
import { eachChunk, withChunk } from '../src/index.ts';

/** Numbers by row and slot, and units of two slots. */
const chunked = ({ rows, slots, lengths }: laws.KernelSize): laws.KernelInputs => {
  const row = (f: (i: number) => number) => ({
    data: Float32Array.from({ length: rows * slots }, (_, i) => f(i)),
    shape: [rows, slots],
  });
  const units = Uint32Array.from({ length: rows * slots }, (_, i) => Math.floor((i % slots) / 2));
  return {
    inputs: { all: row((i) => i), part: row((i) => -i), unitOf: { data: units, shape: [rows, slots], lengths } },
    params: { chunk: 1 },
  };
};
describe('with-chunk', () => laws.each(laws.kernelLaws(withChunk, { make: chunked, runs: 30 }), test));

/** Distance of every key from the mean key, less where it stands: what both keys and places of a chunk change. */
const fromMean = scorer(
  'fromMean',
  { needs: [keys, positions], minSlots: (_, n) => Math.min(1, n) },
  ({ ops, keys: k, positions: p }) => {
    const mean = ops.matmul(ops.simplex(ops.fill(ops.norm(k), 1)), k);
    return { scores: ops.sub(ops.distance(mean, k), ops.float(p)), forced: ops.less(p, 1) };
  },
)();
describe('eachChunk', () => laws.each(laws.scorerLaws(eachChunk(fromMean, { size: 3 }), { positional: true }), test));
