import fc from 'fast-check';
import ndarray from 'ndarray';
import { describe, expect, test } from 'vitest';
import { compose, scoreTransform, zScore } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { compile, emptyDraft, runSteps, traceOps } from '@kv/core/engine';
import type { Piece } from '@kv/core';
import { scene, sceneSpecs } from '@kv/laws';
import type { Layer, Scene } from '@kv/laws';
import { diversity } from '../src/index.ts';
import { alphaOracle, signaturesOracle } from './diversity.oracle.ts';

/** Random numbers without the ties that fast-check looks for: gains closer than f32 can tell have no right order. */
const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround((x - Math.floor(x)) * 4 - 2);
  };
const cases = fc.record({
  n: fc.oneof(fc.integer({ min: 1, max: 16 }), fc.integer({ min: 30, max: 80 })),
  d: fc.integer({ min: 1, max: 5 }),
  heads: fc.integer({ min: 1, max: 3 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  k: fc.oneof(fc.nat(18), fc.nat(60)),
  lambda: fc.constantFrom(0, 0.25, 0.5, 1.5, 4),
  scale: fc.constantFrom('scores' as const, 'deviations' as const),
  forced: fc.nat(3),
  banned: fc.nat(3),
});
type Case = typeof cases extends fc.Arbitrary<infer T> ? T : never;

/** λ in the scores' own scale. */
function lambdaOf({ lambda, scale }: Case, s: readonly number[]): number {
  const mean = s.reduce((a, b) => a + b, 0) / s.length;
  return scale === 'scores' ? lambda : lambda * Math.sqrt(s.reduce((a, b) => a + (b - mean) ** 2, 0) / s.length);
}
/** One layer of `heads` KV heads with a layer row of scores, and what the oracle reads. */
function given({ n, d, heads, seed, forced, banned }: Case) {
  const s = Array.from({ length: n }, (_, i) => noise(seed)(i)),
    v = Float32Array.from({ length: heads * n * d }, (_, i) => noise(seed + 1)(i));
  const order = s.map((_, i) => i).sort((a, b) => noise(seed + 2)(a) - noise(seed + 2)(b)),
    must = order.slice(0, forced).sort((a, b) => a - b),
    not = order.slice(must.length, must.length + banned);
  const mask = (set: readonly number[]): Float32Array => Float32Array.from(s, (_, i) => Number(set.includes(i)));
  const masks = scoreTransform('masks', {}, ({ ops, scores }) => ({
    scores,
    forced: ops.from({ data: mask(must), shape: [1, n] }),
    banned: ops.from({ data: mask(not), shape: [1, n] }),
  }))();
  const vector = (g: number, i: number): number[] => Array.from(v.subarray((g * n + i) * d, (g * n + i + 1) * d));
  return { s, must, not, masks, vector, values: { data: v, shape: [heads, n, d] } };
}

describe('agrees with algorithm 1 in float64, n x n matrix and all', () => {
  test('signatures of the layer', () =>
    fc.assert(
      fc.property(cases, (c) => {
        const { s, must, not, masks, vector, values } = given(c),
          budget = Math.max(c.k, must.length);
        const signatures = signaturesOracle(s.map((_, i) => Array.from({ length: c.heads }, (_h, g) => vector(g, i))));
        const want = alphaOracle(s, signatures, budget, lambdaOf(c, s), must, not);
        for (const signature of ['layer', 'model'] as const)
          expect(
            apply(compose(masks, diversity({ lambda: c.lambda, scale: c.scale, signature })), {
              scores: [s],
              values,
              budget,
            }).kept,
          ).toEqual(Array.from({ length: c.heads }, () => want));
      }),
      { numRuns: 60 },
    ));
  test('signatures of each head', () =>
    fc.assert(
      fc.property(cases, (c) => {
        const { s, must, not, masks, vector, values } = given(c),
          budget = Math.max(c.k, must.length);
        const { kept } = apply(compose(masks, diversity({ lambda: c.lambda, scale: c.scale, signature: 'head' })), {
          scores: [s],
          values,
          budget,
        });
        kept!.forEach((set, g) =>
          expect(set).toEqual(
            alphaOracle(s, signaturesOracle(s.map((_, i) => [vector(g, i)])), budget, lambdaOf(c, s), must, not),
          ),
        );
      }),
      { numRuns: 60 },
    ));
});

/** Kept slots `[layer][head]` of a policy over all layers of a scene. */
function keptOn(
  piece: Piece,
  { layers }: Scene,
  ops = cpu.ops,
  reveal = (t: Parameters<typeof readCpu>[0]): typeof t => t,
): number[][][] {
  const put = ({ at, lengths }: Layer, data: Float32Array | Uint32Array, ...rest: number[]) =>
    ops.from(
      { data, shape: [at.kvHeads, at.slots, ...rest] },
      undefined,
      at.aligned ? undefined : ops.from({ data: Uint32Array.from(lengths), shape: [lengths.length] }, 'u32'),
    );
  const events = layers.map((l) => ({
    at: l.at,
    budgets: l.lengths.map((n) => Math.min(n, l.at.budget)),
    read: (signal: { id: string }) =>
      signal.id === 'positions' ? put(l, l.positions) : put(l, l.values, l.at.headDim),
  }));
  const drafts = events.map((e, l) => ({
    ...emptyDraft(e, ops),
    scores: put(
      layers[l],
      layers[l].keys.filter((_, i) => i % e.at.headDim === 0),
    ),
  }));
  return runSteps(compile(piece).steps, events, ops, drafts).map(({ kept }) => {
    const { data, shape, lengths } = readCpu(reveal(kept!));
    return Array.from(lengths!, (count, r) => Array.from(data.subarray(r * shape[1], r * shape[1] + count)));
  });
}

test('signatures of the model are means over all layers and heads that hold the token', () => {
  fc.assert(
    fc.property(
      sceneSpecs({ layers: 3 }).map((spec) => ({ ...spec, vectors: 'spread' as const })),
      (spec) => {
        const on = scene(spec),
          got = keptOn(diversity({ lambda: 2 }), on);
        const held = new Map<number, number[][]>();
        for (const {
          at: { slots, headDim: d },
          lengths,
          positions,
          values,
        } of on.layers)
          lengths.forEach((n, g) => {
            for (let i = 0; i < n; i++) {
              const p = positions[g * slots + i];
              held.set(p, [
                ...(held.get(p) ?? []),
                Array.from(values.subarray((g * slots + i) * d, (g * slots + i + 1) * d)),
              ]);
            }
          });
        const table = signaturesOracle([...held.values()]),
          index = [...held.keys()];
        on.layers.forEach(({ at: { slots, headDim: d, budget }, lengths, positions, keys }, l) =>
          lengths.forEach((n, g) => {
            const rows = Array.from({ length: n }, (_, i) =>
              Array.from({ length: d }, (_c, c) => table.get(index.indexOf(positions[g * slots + i]), c)),
            );
            const s = Array.from({ length: n }, (_, i) => keys[(g * slots + i) * d]);
            expect(got[l][g]).toEqual(alphaOracle(s, ndarray(Float64Array.from(rows.flat()), [n, d]), budget, 2));
          }),
        );
        const { ops, reveal } = traceOps(cpu);
        expect(keptOn(diversity({ lambda: 2 }), on, ops, reveal)).toEqual(got);
      },
    ),
    { numRuns: 25 },
  );
});

test('λ of a layer lies on the line from the first to the last and decays with every token; at 0 it is top-k, bit for bit', () => {
  const values = { data: Float32Array.of(1, 0, 1, 0, 0, 1), shape: [1, 3, 2] },
    scores = [[3, 2.9, 2]],
    pick = (piece: Piece, layer: number, step: number) =>
      apply(piece, { scores, values, budget: 2, at: { layer, layers: 3, step } }).kept![0];
  const rising = diversity({ lambda: 0, last: 1, signature: 'head' }),
    fading = diversity({ lambda: 1, decay: 0.9, signature: 'head' });
  expect([0, 1, 2].map((layer) => pick(rising, layer, 0))).toEqual([
    [0, 1],
    [0, 1],
    [0, 2],
  ]); // λ 0, 0.5, 1 against a lead of 0.9
  expect([0, 1, 2].map((step) => pick(fading, 0, step))).toEqual([
    [0, 2],
    [0, 1],
    [0, 1],
  ]); // λ 1, 0.9, 0.81: at 0.9 the lower of equals
  expect(compile(diversity({ lambda: 0 })).needs).toEqual([]);
});

test('scores of another scale: a z-score before it makes λ one unit of spread', () => {
  const values = { data: Float32Array.of(1, 0, 1, 0, 0, 1, -1, 0), shape: [1, 4, 2] },
    scores = [[0.04, 0.039, 0.001, 0.0005]];
  expect(apply(diversity({ signature: 'layer' }), { scores, values, budget: 2 }).kept).toEqual([[0, 2]]);
  expect(apply(compose(zScore(), diversity({ signature: 'layer' })), { scores, values, budget: 2 }).kept).toEqual([
    [0, 1],
  ]);
});

test('a zero vector is redundant with nothing, and one that points away earns no bonus', () => {
  const values = { data: Float32Array.of(1, 0, 0, 0, -1, 0, 1, 0), shape: [1, 4, 2] };
  expect(
    apply(diversity({ lambda: 9, signature: 'head' }), { scores: [[5, 1, 1, 4]], values, budget: 3 }).kept,
  ).toEqual([[0, 1, 2]]);
  expect(
    apply(diversity({ lambda: 9, signature: 'head' }), { scores: [[5, 1, 0.9, 4]], values, budget: 2 }).kept,
  ).toEqual([[0, 1]]);
});
