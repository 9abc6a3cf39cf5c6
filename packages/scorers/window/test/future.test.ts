import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  attentionAccumulated,
  attentionLast,
  attentionMax,
  attentionWindow,
  compose,
  keys,
  queries,
  rope,
  scorer,
  selector,
  sum,
  weightScorer,
} from '@kv/core';
import type { AnyScorer, AnySignal, Piece, Rope } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scene, sceneSpecs, scorerLaws } from '@kv/laws';
import type { Layer } from '@kv/laws';
import { future, groupMaxAttention, scissorhands, worstCaseAttention } from '../src/index.ts';
import { futureRows } from './future.oracle.ts';
import type { Vectors } from './future.oracle.ts';

const reading = (name: string, signal: AnySignal) =>
  weightScorer(name, { needs: [signal] }, (ctx) => (ctx as unknown as { attention: never }).attention)();
const W = 3,
  mean = reading('mean', attentionWindow(W)),
  largest = reading('largest', attentionMax(W)),
  newest = reading('newest', attentionLast);

// which slots a query sees depends on their positions
for (const piece of [
  future(mean),
  future(worstCaseAttention({ window: 2, kernel: 3 })),
  future(scissorhands({ window: 2, recent: 1 })),
])
  describe(piece.label, () => each(scorerLaws(piece, { runs: 30 }), test));

/** Rotation of the first 2 x frequencies channels; cos and sin carry a factor, as a scaled model's do. */
const rotation = (frequencies: readonly number[], factor = 1): Rope => ({
  rotary: 2 * frequencies.length,
  angles: (p) => {
    const each = (f: (x: number) => number): Float32Array =>
      Float32Array.from([...p].flatMap((at) => frequencies.map((x) => factor * f(at * x))));
    return { cos: each(Math.cos), sin: each(Math.sin) };
  },
});
const given = ({ at, keys: k, positions }: Layer, rope: Rope, queries: Float32Array) => ({
  queries: { data: queries, shape: [at.queryHeads, queries.length / (at.queryHeads * at.headDim), at.headDim] },
  keys: { data: k, shape: [at.kvHeads, at.slots, at.headDim] },
  positions: { data: positions, shape: [at.kvHeads, at.slots] },
  rope,
  at: { length: at.length, queryHeads: at.queryHeads, headDim: at.headDim },
});
type Given = ReturnType<typeof given>;
const specs = sceneSpecs({ ragged: false, layers: 1 }).filter((s) => s.vectors !== 'long' && s.slots + s.evicted >= W);
const onLayers = (check: (layer: Layer, queries: Float32Array) => void): void =>
  fc.assert(
    fc.property(specs, fc.nat(999), (spec, seed) => {
      const [layer] = scene(spec).layers,
        { queryHeads: H, headDim: d } = layer.at;
      check(
        layer,
        Float32Array.from({ length: H * W * d }, (_, i) => 2 * Math.sin(i * 1.7 + seed)),
      );
    }),
    { numRuns: 40 },
  );
const scores = (piece: Piece<'start', any>, input: Given): Float32Array =>
  apply(piece, input).scores!.data as Float32Array;
const near = (got: ArrayLike<number>, want: ArrayLike<number>, tolerance = 1e-5): void => {
  expect(got.length).toBe(want.length);
  for (let i = 0; i < want.length; i++) expect(Math.abs(got[i] - want[i])).toBeLessThan(tolerance);
};
const vectors = (x: Float32Array, row: number, count: number, d: number): Vectors =>
  Array.from({ length: count }, (_, i) => [...x.subarray((row * count + i) * d, (row * count + i + 1) * d)]);

test.each([1, 1.3])('means, maxima and the newest row agree with the oracle, at a factor of %f', (factor) =>
  onLayers((layer, queries) => {
    const { at, keys: k, positions } = layer,
      { queryHeads: H, kvHeads: G, slots: n, headDim: d } = at,
      frequencies = Array.from({ length: Math.floor(d / 2) }, (_, c) => 0.7 / 10 ** c),
      input = given(layer, rotation(frequencies, factor), queries),
      got = [mean, largest, newest].map((piece) => scores(future(piece), input));
    for (let h = 0; h < H; h++) {
      const g = Math.floor((h * G) / H),
        rows = (w: number): number[][] =>
          futureRows(
            vectors(queries, h, W, d).slice(W - w),
            vectors(k, g, n, d),
            [...positions.subarray(g * n, (g + 1) * n)],
            at.length,
            frequencies,
          ),
        columns = Array.from({ length: n }, (_, j) => rows(W).map((row) => row[j])),
        own = (x: Float32Array): Float32Array => x.subarray(h * n, (h + 1) * n);
      near(
        own(got[0]),
        columns.map((c) => c.reduce((a, b) => a + b, 0) / W),
      );
      near(
        own(got[1]),
        columns.map((c) => Math.max(...c)),
      );
      near(own(got[2]), rows(1)[0]);
    }
  }),
);

/** The same attention without `future`, from the same queries. */
const still: readonly (readonly [moved: Piece<'start', any>, plain: Piece<'start', any>])[] = [
  groupMaxAttention({ window: W, kernel: 1 }),
  worstCaseAttention({ window: W, kernel: 3 }),
].map((piece) => [future(piece), piece]);
test('without rotation every window scorer scores as it does by itself, to the bit', () =>
  onLayers((layer, queries) => {
    const input = given(layer, rotation([]), queries);
    for (const [moved, plain] of still) expect(scores(moved, input)).toEqual(scores(plain, input));
  }));
test('the slower the rotation, the nearer to the scorer by itself', () =>
  onLayers((layer, queries) => {
    const half = Math.floor(layer.at.headDim / 2),
      input = given(layer, rotation(new Array<number>(half).fill(1e-6)), queries);
    for (const [moved, plain] of still) near(scores(moved, input), scores(plain, input), 1e-3);
  }));
test('the laws bite: scores with rotation differ, and so do those of queries that see every slot', () => {
  const [layer] = scene({
    ...{ layers: 1, kvHeads: 1, group: 1, slots: 8, dim: 4, ragged: false, evicted: 0 },
    ...{ budget: 4, weights: 'spread', vectors: 'spread', seed: 3 },
  }).layers;
  const queries = Float32Array.from({ length: 4 * W }, (_, i) => 2 * Math.sin(i)),
    input = given(layer, rotation([]), queries),
    [, [moved, plain]] = still,
    plainly = scores(plain, input);
  expect(scores(moved, given(layer, rotation([0.7, 0.1]), queries))).not.toEqual(plainly);
  expect(scores(moved, { ...input, at: { ...input.at, length: input.at.length + W } })).not.toEqual(plainly);
});

test('weights stay weights, scores stay scores, and what the scorer forces stays', () => {
  const below = scorer('below', { needs: [attentionLast] }, ({ ops, attention }) => ({
    scores: ops.sub(attention, 1),
    forced: ops.lastSlots(attention, 1),
  }))();
  expect([future(mean).to, future(below).to, future(sum(mean, newest)).to]).toEqual(['weights', 'scores', 'weights']);
  const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))(),
    x = { data: Float32Array.from({ length: 8 }, (_, i) => 4 - i), shape: [1, 8, 1] },
    last = { data: Float32Array.of(1), shape: [1, 1, 1] };
  expect(
    apply(compose(future(below), topK), { queries: last, keys: x, rope: rotation([]), budget: 2, at: { headDim: 1 } })
      .kept,
  ).toEqual([[0, 7]]);
});
test.each([
  [reading('sums', attentionAccumulated), "'sums' reads attention.accumulated"],
  [sum(mean, reading('sums', attentionAccumulated)), "'sum(mean,sums)' reads attention.accumulated"],
  [
    weightScorer('placed', { needs: [queries(2), rope] }, ({ ops, queries: q }) => ops.norm(q))(),
    "'placed' reads rope",
  ],
  [weightScorer('sizes', { needs: [keys] }, ({ ops, keys: k }) => ops.norm(k))(), "'sizes' reads no queries"],
])('what no window of queries makes is refused', (piece, reads) =>
  expect(() => future(piece as AnyScorer)).toThrow(
    `future: ${reads}, expected a scorer of the last queries or their attention, such as snapkv`,
  ),
);
