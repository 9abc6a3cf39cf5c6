import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { compose } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Piece, Rope } from '@kv/core';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import type { Layer } from '@kv/laws';
import {
  capkv,
  expectedAttention,
  expectedAttentionStats,
  queryMoments,
  queryStatistics,
  queryStatisticsFile,
  readQueryStatistics,
} from '../src/index.ts';
import type { QueryStatistics } from '../src/index.ts';
import { capOracle, expectedOracle, length, moments, unturned, weightsOracle } from './expected.oracle.ts';
import type { Case } from './expected.oracle.ts';

/** Statistics of a layer that were calibrated on something else. */
const statistics = ({ queryHeads: H, headDim: d }: Layer['at']): QueryStatistics => ({
  queryHeads: H,
  headDim: d,
  mean: Float32Array.from({ length: H * d }, (_, i) => Math.sin(i)),
  covariance: Float32Array.from({ length: H * d * d }, (_, i) => {
    const [a, b] = [Math.floor((i % (d * d)) / d), i % d];
    return Math.cos(a + b) / 8 + (a === b ? 1 : 0);
  }),
});
const signals = (signal: { readonly id: string }, { at }: Layer): unknown =>
  signal.id === queryStatistics.id ? statistics(at) : undefined;
describe.each(
  [
    expectedAttention({ window: 6, future: 3, sinks: 1 }),
    expectedAttention({ window: 2, future: 1, sinks: 0, covariance: false, valueNorm: false }),
    expectedAttentionStats({ future: 3, sinks: 1 }),
    expectedAttentionStats({ future: 1, covariance: false }),
    capkv({ window: 6, future: 3, sinks: 1 }),
    capkv({ tau: 0, window: 2, future: 1, sinks: 0 }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scorerLaws(piece, { signals, runs: 40, tolerance: 1e-4 }), test);
});

const angle = (position: number, pair: number): number => position / 3 ** pair;
const rope = (d: number): Rope => ({
  rotary: 2 * Math.floor(d / 2),
  angles: (p: Uint32Array) => {
    const half = Math.floor(d / 2),
      table = (f: (x: number) => number): Float32Array =>
        Float32Array.from({ length: p.length * half }, (_, i) => f(angle(p[Math.floor(i / half)], i % half)));
    return { cos: table(Math.cos), sin: table(Math.sin) };
  },
});
const rows = (x: Float32Array, r: number, m: number, d: number) =>
  Array.from({ length: m }, (_, i) =>
    ndarray(Float64Array.from(x.subarray((r * m + i) * d, (r * m + i + 1) * d)), [d]),
  );

/**
 * Compares a piece's scores on a random layer with one oracle for each query head, mean over the group, times `scale`.
 */
function agrees(
  make: (future: number, sinks: number, w: number) => Piece,
  oracle: (c: Case, head: number, at: Layer['at']) => number[],
  scale: (v: Case['values'][number]) => number,
  tolerance: number,
  own: { readonly scale?: number; readonly learned?: (head: number) => number } = {},
): void {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 1, ragged: false }).filter((s) => s.vectors !== 'long' && s.slots + s.evicted > 2),
      fc.integer({ min: 1, max: 4 }),
      fc.integer({ min: 0, max: 2 }),
      (spec, future, sinks) => {
        const { at, keys, values, positions } = scene(spec).layers[0],
          { kvHeads: G, queryHeads: H, slots: n, headDim: d } = at,
          w = at.length;
        const q = Float32Array.from({ length: H * w * d }, (_, i) => Math.sin(i * 1.3));
        const got = apply(make(future, sinks, w), {
          queries: { data: q, shape: [H, w, d] },
          keys: { data: keys, shape: [G, n, d] },
          values: { data: values, shape: [G, n, d] },
          positions: { data: positions, shape: [G, n] },
          rope: rope(d),
          queryStatistics: statistics(at),
          at: {
            ...{ length: w, headDim: d, queryHeads: H },
            ...(own.scale && { scale: own.scale }),
            ...(own.learned && { learnedSinks: Float32Array.from({ length: H }, (_, h) => own.learned!(h)) }),
          },
        }).scores!.data;
        for (let g = 0; g < G; g++) {
          const placed = Array.from(positions.subarray(g * n, (g + 1) * n)),
            k = rows(keys, g, n, d),
            v = rows(values, g, n, d);
          if (placed.every((p) => p < sinks)) continue;
          const heads = Array.from({ length: H / G }, (_, r) =>
            oracle(
              {
                queries: rows(q, (g * H) / G + r, w, d),
                queryPositions: Array.from({ length: w }, (_, i) => i),
                keys: k,
                values: v,
                positions: placed,
                length: w,
                future,
                sinks,
                ...(own.scale && { scale: own.scale }),
                ...(own.learned && { learned: own.learned((g * H) / G + r) }),
              },
              (g * H) / G + r,
              at,
            ),
          );
          v.forEach((x, i) =>
            expect(
              Math.abs(got[g * n + i] - (heads.reduce((a, row) => a + row[i], 0) / heads.length) * scale(x)),
            ).toBeLessThan(tolerance),
          );
        }
      },
    ),
    { numRuns: 60 },
  );
}
test('agrees with the oracle: full rotation matrices, sinks left out, mean over the group, times |v|', () =>
  agrees(
    (future, sinks, window) => expectedAttention({ window, future, sinks }),
    (c) => expectedOracle(c, angle),
    length,
    2e-5,
  ));
test('under learned sinks, and where the model scales scores by another number', () =>
  agrees(
    (future, sinks, window) => expectedAttention({ window, future, sinks }),
    (c) => expectedOracle(c, angle),
    length,
    2e-5,
    { scale: 0.3, learned: (head) => 3 * Math.sin(head + 1) },
  ));
test('with statistics from a file, whatever the queries of the prompt are', () =>
  agrees(
    (future, sinks) => expectedAttentionStats({ future, sinks }),
    (c, head, at) => {
      const { mean, covariance } = statistics(at),
        d = at.headDim;
      return weightsOracle(
        ndarray(Float64Array.from(mean.subarray(head * d, (head + 1) * d)), [d]),
        ndarray(Float64Array.from(covariance.subarray(head * d * d, (head + 1) * d * d)), [d, d]),
        c,
        angle,
      );
    },
    length,
    2e-5,
  ));
test('CapKV: what the capacity loses with each value, by determinants', () =>
  agrees(
    (future, sinks, window) => capkv({ tau: 5, window, future, sinks }),
    (c) => capOracle(c, 5, angle),
    () => 1,
    1e-4,
  ));
test('CapKV of one direction twice: the two share what one alone would have', () => {
  const still = { rotary: 0, angles: () => ({ cos: new Float32Array(0), sin: new Float32Array(0) }) },
    ones = { data: new Float32Array(6).fill(1), shape: [1, 3, 2] };
  const score = (values: number[]): number[] =>
    Array.from(
      apply(capkv({ sinks: 0 }), {
        queries: ones,
        keys: ones,
        values: { data: Float32Array.from(values), shape: [1, 3, 2] },
        rope: still,
        at: { headDim: 2 },
      }).scores!.data,
    );
  expect(score([3, 0, 3, 0, 0, 2]).map((x) => +x.toFixed(4))).toEqual([
    +(9 / 19).toFixed(4),
    +(9 / 19).toFixed(4),
    0.8,
  ]);
});

test('moments of turned queries, block by block, are those of the queries before rotation after the sinks', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2 }),
      fc.integer({ min: 1, max: 5 }),
      fc.integer({ min: 2, max: 9 }),
      fc.integer({ min: 0, max: 3 }),
      fc.integer({ min: 1, max: 9 }),
      (H, d, n, sinks, cut) => {
        fc.pre(n - sinks >= 2);
        const q = Array.from({ length: H }, (_, h) =>
            Float32Array.from({ length: n * d }, (__, i) => Math.sin(i * 1.7 + h)),
          ),
          own = queryMoments(H, d, sinks),
          half = Math.floor(d / 2);
        for (let from = 0; from < n; from += cut) {
          const m = Math.min(cut, n - from),
            places = Uint32Array.from({ length: m }, (_, t) => from + t);
          own.add({
            q: Float32Array.from(q.flatMap((head) => Array.from(head.subarray(from * d, (from + m) * d)))),
            ...rope(d).angles(places),
            half,
          });
        }
        const { mean, covariance } = own.take();
        q.forEach((head, h) => {
          const want = moments(
            unturned(
              rows(head, 0, n, d),
              Array.from({ length: n }, (_, i) => i),
              sinks,
              angle,
            ),
            1,
          );
          for (let a = 0; a < d; a++) {
            expect(mean[h * d + a]).toBeCloseTo(want.mean.get(a), 5);
            for (let b = 0; b < d; b++)
              expect(covariance[(h * d + a) * d + b]).toBeCloseTo(want.covariance.get(a, b), 4);
          }
        });
      },
    ),
    { numRuns: 60 },
  );
});

describe('the file next to the model', () => {
  const row = (l: number): QueryStatistics => ({
    queryHeads: 2,
    headDim: 3,
    mean: Float32Array.from({ length: 6 }, (_, i) => i + l),
    covariance: Float32Array.from({ length: 18 }, (_, i) => i * l),
  });
  test('is read back, a row a layer', async () => {
    const file = queryStatisticsFile([row(0), row(1)], { tokens: '9' });
    expect(readQueryStatistics(file)).toEqual([row(0), row(1)]);
    expect(
      await queryStatistics.provide!(
        { artifact: async (name: string) => (name === 'query-statistics.safetensors' ? file : undefined) } as never,
        1,
      ),
    ).toEqual(row(1));
    await expect(queryStatistics.provide!({ artifact: async () => undefined } as never, 0)).rejects.toThrow(
      "expectedAttentionStats: expected query-statistics.safetensors next to the model, got none: make it with 'node tools/calibrate.mjs MODEL'",
    );
  });
  test('of other shapes, or of another model, is refused', () => {
    const wide = { ...row(0), covariance: new Float32Array(18) },
      file = queryStatisticsFile([{ ...wide, headDim: 3 }]);
    const text = Buffer.from(file).toString('latin1').replace('[1,2,3,3]', '[1,3,3,2]');
    expect(() => readQueryStatistics(Uint8Array.from(text, (c) => c.charCodeAt(0)))).toThrow(
      'expected means [layers, heads, channels] and covariances [layers, heads, channels, channels], got [1, 2, 3] and [1, 3, 3, 2]',
    );
    const x = { data: new Float32Array(4), shape: [1, 2, 2] };
    expect(() =>
      apply(compose(expectedAttentionStats()), {
        keys: x,
        values: x,
        rope: rope(2),
        queryStatistics: row(0),
        at: { headDim: 2 },
      }),
    ).toThrow('expectedAttentionStats: expected statistics of 1 heads with 2 channels, got 2 heads with 3');
  });
});

describe('options are checked', () => {
  test.each([
    ['window', () => expectedAttention({ window: 0 })],
    ['future', () => expectedAttention({ future: 0.5 })],
    ['sinks', () => expectedAttention({ sinks: -1 })],
    ['epsilon', () => expectedAttention({ epsilon: -1 })],
    ['future', () => expectedAttentionStats({ future: 0 })],
    ['tau', () => capkv({ tau: -1 })],
    ['window', () => capkv({ window: 0 })],
    ['future', () => capkv({ future: 0 })],
    ['sinks', () => capkv({ sinks: 0.5 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^\\w+: ${option} must be `));
  });
});
