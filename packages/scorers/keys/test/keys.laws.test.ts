import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Kernel } from '@kv/core';
import { each, kernelLaws, scorerLaws } from '@kv/laws';
import type { KernelInputs, KernelSize } from '@kv/laws';
import { cur, keydiff, lagkv, lagScores, lagSpread, minusCosine, unitSums, windowShare } from '../src/index.ts';

describe('keydiff', () => {
  each(scorerLaws(keydiff()), test);
});
// windows and partitions count slots
describe.each(
  [
    cur(),
    cur({ sinks: 1, window: 3, of: 'mean' }),
    lagkv(),
    lagkv({ sinks: 1, lag: 2 }),
    lagkv({ sinks: 0, lag: 3, cross: true }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { positional: true, runs: 40 }), test);
});

// the references run on the CPU themselves here; @kv/gpu runs the same laws on a device
const put = (seed: number, ...shape: number[]) => ({
  data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => Math.sin(i * 7 + seed)),
  shape,
});
const made: readonly (readonly [Kernel, (size: KernelSize) => KernelInputs])[] = [
  [unitSums, ({ rows, slots, lengths, seed }) => ({ inputs: { x: { ...put(seed, rows, slots, 3), lengths } } })],
  [
    minusCosine,
    ({ rows, slots, lengths, seed }) => ({
      inputs: { x: { ...put(seed, rows, slots, 3), lengths }, anchor: put(seed, rows, 1, 3) },
    }),
  ],
  [
    windowShare,
    ({ rows, slots, lengths, seed }) => ({
      inputs: { norm: { ...put(seed, rows, slots), lengths } },
      params: { window: 5 },
    }),
  ],
  [lagSpread, ({ rows, slots, seed }) => ({ inputs: { x: put(seed, rows, slots, 3) }, params: { lag: 2, sinks: 1 } })],
  [
    lagScores,
    ({ rows, slots, lengths, seed }) => ({
      inputs: {
        parts: put(seed, rows * Math.max(1, Math.floor((slots - 1) / 2) - 1), 2),
        like: { ...put(seed, rows, slots), lengths },
      },
      params: { lag: 2, sinks: 1, ranked: seed % 2 },
    }),
  ],
];
describe('kernels', () => {
  for (const [kernel, make] of made)
    each(kernelLaws(kernel, { make }), (name, law) => test(`${kernel.id} ${name}`, law));
});

test('windows and partitions beyond all slots are those of all slots', () => {
  const cache = {
      keys: put(1, 2, 9, 4),
      values: put(2, 2, 9, 4),
      positions: [0, 1].map(() => Array.from({ length: 9 }, (_, i) => i)),
    },
    scores = (piece: Parameters<typeof apply>[0]) => Array.from(apply(piece, cache).scores!.data);
  expect(scores(cur({ window: 2 ** 31 }))).toEqual(scores(cur({ window: 9 })));
  expect(scores(lagkv({ lag: 2 ** 31 }))).toEqual(scores(lagkv({ lag: 9 })));
  expect(scores(lagkv({ sinks: 2 ** 31 }))).toEqual(new Array<number>(18).fill(1));
});

describe('options are checked', () => {
  test.each([
    ['sinks', () => cur({ sinks: -1 })],
    ['window', () => cur({ window: 0 })],
    ['of', () => cur({ of: 'both' as 'key' })],
    ['sinks', () => lagkv({ sinks: 0.5 })],
    ['lag', () => lagkv({ lag: 0 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});
