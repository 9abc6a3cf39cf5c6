import fc from 'fast-check';
import { expect, test } from 'vitest';
import { centroid, certificate, coveringRadius, driftBound, driftLoss, heaviest } from '../src/index.ts';
import { attention } from './certificates.oracle.ts';

const EPS = 1e-9;
const vectorOf = (d: number) => fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: d, maxLength: d });
const cases = fc.integer({ min: 1, max: 4 }).chain((d) =>
  fc.record({
    keys: fc.array(vectorOf(d), { minLength: 2, maxLength: 12 }),
    q: vectorOf(d),
    step: vectorOf(d),
    norm: fc.constantFrom(0.2, 1, 12),
    gaps: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 12, maxLength: 12 }),
  }),
);
const length = (v: readonly number[]): number => Math.hypot(...v);
const weightsOf = (q: readonly number[], keys: readonly (readonly number[])[]): number[] =>
  Array.from(attention(q, keys).data);
const placesOf = (n: number, gaps: readonly number[]): number[] =>
  Array.from({ length: n }, (_, i) => gaps.slice(0, i).reduce((a, b) => a + b, 3));

test('the centroid of attention moves no further than its bound, whatever the queries', () => {
  fc.assert(
    fc.property(cases, ({ keys, q, step, norm, gaps }) => {
      const from = q.map((x) => x * norm),
        to = from.map((x, c) => x + step[c]),
        places = placesOf(keys.length, gaps),
        keyNorm = Math.max(...keys.map(length)),
        bound = driftBound({
          span: places.at(-1)! - places[0],
          keyNorm,
          dim: q.length,
          distance: length(from.map((x, c) => x - to[c])),
        }),
        moved = Math.abs(centroid(weightsOf(from, keys), places) - centroid(weightsOf(to, keys), places));
      expect(moved).toBeLessThanOrEqual(bound + EPS * bound + EPS);
    }),
    { numRuns: 300 },
  );
});
test('two keys that point against each other move the centroid by half its bound', () => {
  const keys = [[1], [-1]],
    places = [0, 100],
    [a, b] = [0, 0.01].map((x) => centroid(weightsOf([x], keys), places));
  expect(Math.abs(a - b)).toBeCloseTo(driftBound({ span: 100, keyNorm: 1, dim: 1, distance: 0.01 }) / 2, 4);
});
test('the radius covers the drift of queries of length 1 by Theorem 6, and is at most the span', () => {
  fc.assert(
    fc.property(cases, ({ keys, q, step, gaps }) => {
      const unit = (v: readonly number[]): number[] => {
          const size = length(v);
          return size > 1e-3 ? v.map((x) => x / size) : v.map((_, c) => Number(c === 0));
        },
        [a, b] = [unit(q), unit(q.map((x, c) => x + 0.2 * step[c]))],
        cosine = a.reduce((s, x, c) => s + x * b[c], 0),
        places = placesOf(keys.length, gaps),
        span = places.at(-1)! - places[0],
        radius = coveringRadius({ span, keyNorm: Math.max(...keys.map(length)), dim: a.length, cosine });
      expect(Number.isInteger(radius)).toBe(true);
      expect(radius).toBeLessThanOrEqual(span);
      expect(Math.abs(centroid(weightsOf(a, keys), places) - centroid(weightsOf(b, keys), places))).toBeLessThanOrEqual(
        radius + EPS,
      );
    }),
    { numRuns: 200 },
  );
});
test('the loss of a small radius is the weight that a covering one would have added', () => {
  fc.assert(
    fc.property(cases, fc.nat(30), fc.nat(60), fc.nat(4), ({ keys, q, gaps }, radius, covering, m) => {
      const weights = weightsOf(q, keys),
        places = placesOf(keys.length, gaps),
        strongest = heaviest(weights, m).map((i) => places[i]),
        near = (r: number): Set<number> =>
          new Set(strongest.flatMap((p) => Array.from({ length: 2 * r + 1 }, (_, k) => p - r + k))),
        [inner, outer] = [near(radius), near(covering)],
        want = weights.reduce((sum, w, i) => sum + (outer.has(places[i]) && !inner.has(places[i]) ? w : 0), 0),
        loss = driftLoss(weights, places, { strongest, radius, covering });
      expect(loss).toBeCloseTo(want, 12);
      if (radius >= covering) expect(loss).toBe(0);
      // what the dilated set keeps of the reference's mass
      const kept = places.flatMap((p, i) => (inner.has(p) ? [i] : []));
      if (kept.length > 0) expect(loss).toBeLessThanOrEqual(certificate(weights, kept).dropped + EPS);
    }),
  );
});
test('bad input is one sentence', () => {
  expect(() => centroid([0.5, 0.5], [1])).toThrow('got 2 weights that sum to 1 and 1 positions');
  expect(() => centroid([0, 0], [1, 2])).toThrow('expected finite weights with some mass');
  expect(() => centroid([Number.NaN], [1])).toThrow('expected finite weights with some mass');
});
