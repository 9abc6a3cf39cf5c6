import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import type { Piece } from '@kv/core';
import { each, kernelLaws, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import { channelSizes, newestQueryAttention, heavyChannelProducts, pageBound, pageBounds } from '../src/index.ts';
import { boundsOracle, labelsOracle } from './retrieval.oracle.ts';
import type { Vector } from './retrieval.oracle.ts';

// pages are of slots
describe('pageBounds', () => {
  each(scorerLaws(pageBounds({ page: 3 }), { positional: true, runs: 40 }), test);
});
describe.each(
  [heavyChannelProducts({ channels: 2, window: 3 }), newestQueryAttention()].map(
    (piece) => [piece.label, piece] as const,
  ),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { runs: 40 }), test);
});
describe('page bound', () => {
  each(
    kernelLaws(pageBound, {
      runs: 15,
      make: ({ rows, slots, lengths }) => ({
        inputs: {
          queries: { data: Float32Array.from({ length: rows * 4 }, (_, i) => Math.sin(i)), shape: [2 * rows, 1, 2] },
          keys: {
            data: Float32Array.from({ length: rows * slots * 2 }, (_, i) => Math.cos(i * 3)),
            shape: [rows, slots, 2],
            lengths,
          },
        },
        params: { page: 4 },
      }),
    }),
    test,
  );
});

describe('channel sizes', () => {
  each(
    kernelLaws(channelSizes, {
      runs: 15,
      make: ({ rows, slots, lengths }) => ({
        inputs: {
          x: {
            data: Float32Array.from({ length: rows * slots * 3 }, (_, i) => Math.sin(i * 3)),
            shape: [rows, slots, 3],
            lengths,
          },
        },
        params: { part: 4 },
      }),
    }),
    test,
  );
});

const W = 3;
const onHeads = (
  check: (queries: Vector[], keys: Vector[], row: (piece: Piece) => number[], w: number) => void,
): void =>
  fc.assert(
    fc.property(
      sceneSpecs({ ragged: false, layers: 1 }).filter((s) => s.vectors !== 'long'),
      (spec) => {
        const { at, keys } = scene(spec).layers[0],
          { kvHeads: G, queryHeads: H, slots: n, headDim: d } = at;
        const vectors = (x: Float32Array, r: number, m: number): Vector[] =>
          Array.from({ length: m }, (_, i) =>
            ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]),
          );
        for (const w of [1, W]) {
          const q = Float32Array.from({ length: H * w * d }, (_, i) => Math.sin(i * 1.7));
          for (let h = 0; h < H; h++)
            check(
              vectors(q, h, w),
              vectors(keys, Math.floor((h * G) / H), n),
              (piece) =>
                Array.from(
                  apply(piece, {
                    queries: { data: q, shape: [H, w, d] },
                    keys: { data: keys, shape: [G, n, d] },
                    at: { queryHeads: H, headDim: d },
                  }).scores!.data.subarray(h * n, (h + 1) * n),
                ),
              w,
            );
        }
      },
    ),
    { numRuns: 40 },
  );
const near = (got: readonly number[], want: readonly number[]): void =>
  want.forEach((x, i) => expect(Math.abs(got[i] - x)).toBeLessThan(1e-5));

test.each([1, 3, 16])('Quest agrees with its oracle, pages of %i', (page) =>
  onHeads((q, k, row, w) => {
    if (w === 1) near(row(pageBounds({ page })), boundsOracle(q[0], k, page));
  }),
);
test('the bound of a page is at least every q·k in it, and is q·k for pages of one', () =>
  onHeads((q, k, row, w) => {
    if (w > 1) return;
    const dot = k.map((x) => Array.from(x.data).reduce((a, v, c) => a + v * q[0].get(c), 0)),
      bound = row(pageBounds({ page: 4 }));
    dot.forEach((x, i) => expect(bound[i] - x).toBeGreaterThan(-1e-5));
    near(row(pageBounds({ page: 1 })), dot);
  }));
test('labels agree with their oracle; all channels are the exact order', () =>
  onHeads((q, k, row, w) => {
    if (w === W)
      for (const channels of [1, 2, 8]) {
        const size = Array.from(
          { length: k[0].shape[0] },
          (_, c) => q.reduce((a, v) => a + Math.abs(v.get(c)), 0) * k.reduce((a, v) => a + Math.abs(v.get(c)), 0),
        ).sort((a, b) => b - a);
        if (size.every((s, i) => i === 0 || size[i - 1] - s > 1e-4 || channels >= size.length))
          // channels within rounding of each other may swap
          near(row(heavyChannelProducts({ channels, window: W })), labelsOracle(q, k, channels));
      }
  }));
test('exact is the attention of the newest query', () => {
  expect(Array.from(apply(newestQueryAttention(), { attention: [[0.25, 0.75]] }).scores!.data)).toEqual([0.25, 0.75]);
});
describe('options are checked', () => {
  test.each([
    ['page', () => pageBounds({ page: 0 })],
    ['channels', () => heavyChannelProducts({ channels: 0 })],
    ['window', () => heavyChannelProducts({ window: -1 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});
