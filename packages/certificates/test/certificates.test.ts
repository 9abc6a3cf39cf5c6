import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  certificate,
  covering,
  droppedMass,
  fitDecay,
  freezingBound,
  freezingDepth,
  heaviest,
  informationBound,
  jointBound,
  posteriorBound,
  printedSharingBound,
  quantisedBound,
  retrievalRatio,
  sharingBound,
  windowBound,
  windowShare,
} from '../src/index.ts';
import { attention, divergence, entropyGap, leastDropped, totalVariation } from './certificates.oracle.ts';

const rows = fc
  .array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 9 })
  .filter((w) => w.some((x) => x > 1e-3));
/** Weights and a set that holds some of their mass. */
const sets = rows
  .chain((weights) =>
    fc.record({
      weights: fc.constant(weights),
      kept: fc.subarray(
        weights.map((_, i) => i),
        { minLength: 1 },
      ),
    }),
  )
  .filter(({ weights, kept }) => kept.some((i) => weights[i] > 1e-3));
const EPS = 1e-9;

describe('the theorems that hold for any weights and set', () => {
  test('Lemma 1: dropped mass is the total variation; KL(kept ‖ whole) is ln(1 / τ)', () =>
    fc.assert(
      fc.property(sets, ({ weights, kept }) => {
        const { dropped, divergence: kl } = certificate(weights, kept);
        expect(Math.abs(dropped - totalVariation(weights, kept))).toBeLessThan(EPS);
        expect(Math.abs(kl - divergence(weights, kept))).toBeLessThan(1e-6);
      }),
    ));
  test('a learned sink is one more outcome, which stays', () =>
    fc.assert(
      fc.property(sets, fc.double({ min: 1e-3, max: 50, noNaN: true }), ({ weights, kept }, sink) => {
        const { dropped, best, divergence: kl, entropy } = certificate(weights, kept, sink),
          [all, left] = [
            [...weights, sink],
            [...kept, weights.length],
          ];
        expect(Math.abs(dropped - totalVariation(all, left))).toBeLessThan(EPS);
        expect(Math.abs(kl - divergence(all, left))).toBeLessThan(1e-6);
        expect(entropyGap(all, left)).toBeLessThanOrEqual(entropy + 1e-9);
        expect(best).toBeLessThanOrEqual(dropped + EPS);
        expect(best).toBeCloseTo(totalVariation(all, [...heaviest(weights, kept.length), weights.length]), 9);
      }),
    ));
  test('entropies differ by at most h_b(δ) + δ ln(n - 1), and g is at least that', () =>
    fc.assert(
      fc.property(sets, ({ weights, kept }) => {
        const { entropy, information } = certificate(weights, kept);
        expect(entropyGap(weights, kept)).toBeLessThanOrEqual(entropy + 1e-9);
        expect(information).toBeGreaterThanOrEqual(entropy - EPS);
      }),
    ));
  test('no set of this size drops less than the best; overlap 1 means as good as best', () =>
    fc.assert(
      fc.property(sets, ({ weights, kept }) => {
        const { dropped, best, overlap } = certificate(weights, kept);
        expect(Math.abs(best - leastDropped(weights, kept.length))).toBeLessThan(EPS);
        expect(dropped).toBeGreaterThanOrEqual(best - EPS);
        if (overlap === 1) expect(Math.abs(dropped - best)).toBeLessThan(EPS);
      }),
      { numRuns: 60 },
    ));
  test('a set chosen by a surrogate drops at most δ* + 2 ε', () =>
    fc.assert(
      fc.property(
        rows,
        fc.array(fc.double({ min: 0.5, max: 2, noNaN: true }), { minLength: 9, maxLength: 9 }),
        fc.integer({ min: 1, max: 9 }),
        (weights, errors, size) => {
          const surrogate = weights.map((w, i) => w * errors[i]),
            sum = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0),
            ks = heaviest(surrogate, size);
          const variation =
            weights.reduce((s, w, i) => s + Math.abs(w / sum(weights) - surrogate[i] / sum(surrogate)), 0) / 2;
          expect(droppedMass(weights, ks)).toBeLessThanOrEqual(
            posteriorBound(certificate(weights, ks).best, variation) + EPS,
          );
        },
      ),
    ));
});

const vectors = fc.record({
  d: fc.integer({ min: 1, max: 5 }),
  n: fc.integer({ min: 2, max: 12 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  norm: fc.constantFrom(0.2, 1, 12),
  size: fc.integer({ min: 1, max: 6 }),
});
const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return (x - Math.floor(x)) * 2 - 1;
  };
const length = (v: readonly number[]): number => Math.hypot(...v);
test('CIS by the distance of the queries: a reused set drops no more than that beyond the best, at any norm; the printed bound wants queries of length 1', () => {
  let printed = 0;
  const unit: number[] = [];
  fc.assert(
    fc.property(vectors, ({ d, n, seed, norm, size }) => {
      const make = (s: number, by: number, to = s, far = 0): number[] => {
        const v = Array.from({ length: d }, (_, c) => noise(s)(c) + far * noise(to)(c));
        return v.map((x) => (x / length(v)) * by);
      };
      const keys = Array.from({ length: n }, (_, i) => make(seed + i + 7, 1 + (i % 3))),
        q = make(seed, norm),
        other = make(seed, norm, seed + 1, 0.15),
        keyNorm = Math.max(...keys.map(length));
      const [a, b] = [attention(q, keys), attention(other, keys)].map((r) => Array.from(r.data)),
        set = heaviest(a, size);
      const { dropped, best } = certificate(b, set),
        distance = length(q.map((x, c) => x - other[c]));
      expect(dropped - best).toBeLessThanOrEqual(sharingBound({ keyNorm, dim: d, distance }) + EPS);
      const cosine = q.reduce((s, x, c) => s + x * other[c], 0) / norm ** 2;
      const fails = dropped - best > printedSharingBound({ keyNorm, dim: d, cosine }) + EPS;
      if (fails) printed++;
      if (fails && norm <= 1) unit.push(norm);
    }),
    { numRuns: 300 },
  );
  expect(printed).toBeGreaterThan(0); // at norm 12
  expect(unit).toEqual([]);
});
test('CIS by the distance of the queries: two keys that point against each other, a query that turns', () => {
  for (const turn of [0.01, 0.1, 0.5]) {
    const [a, b] = [
        [turn, 0],
        [-turn, 0],
      ].map((q) =>
        Array.from(
          attention(q, [
            [1, 0],
            [-1, 0],
          ]).data,
        ),
      ),
      { dropped, best } = certificate(b, heaviest(a, 1));
    expect(dropped - best).toBeLessThanOrEqual(sharingBound({ keyNorm: 1, dim: 2, distance: 2 * turn }));
    // a bound five times smaller fails
    expect(dropped - best).toBeGreaterThan(sharingBound({ keyNorm: 1, dim: 2, distance: 2 * turn }) / 5);
  }
});
test('ETF: keys that move by at most B e^(-μ depth) move the weights, as total variation, by no more than its bound', () => {
  fc.assert(
    fc.property(
      vectors,
      fc.integer({ min: 0, max: 4 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.double({ min: 0.01, max: 2, noNaN: true }),
      ({ d, n, seed, norm }, depth, rate, scale) => {
        const vector = (s: number, by: number): number[] => {
          const v = Array.from({ length: d }, (_, c) => noise(s)(c));
          return v.map((x) => (x / length(v)) * by);
        };
        const q = vector(seed, norm),
          keys = Array.from({ length: n }, (_, i) => vector(seed + i + 7, 1 + (i % 3))),
          size = scale * Math.exp(-rate * depth),
          frozen = keys.map((k, i) => {
            const by = vector(seed + i + 91, i % 4 === 0 ? 0 : size);
            return k.map((x, c) => x + by[c]);
          });
        const [was, is] = [attention(q, keys), attention(q, frozen)].map((r) => Array.from(r.data)),
          moved = was.reduce((s, x, i) => s + Math.abs(x - is[i]), 0) / 2;
        expect(moved).toBeLessThanOrEqual(freezingBound({ queryNorm: norm, dim: d, scale, rate, depth }) + EPS);
        // and eq. 48: what a window hides of the frozen weights is at most what it hides of the others and this
        const from = Math.floor(n / 2),
          tail = (w: readonly number[]): number => w.slice(0, from).reduce((a, b) => a + b, 0);
        expect(tail(is)).toBeLessThanOrEqual(
          jointBound(tail(was), freezingBound({ queryNorm: norm, dim: d, scale, rate, depth })) + EPS,
        );
      },
    ),
    { numRuns: 200 },
  );
  const [near, far] = [
    [[1], [-1]],
    [[1.1], [-1.1]],
  ].map((keys) => Array.from(attention([0.2], keys).data));
  expect(Math.abs(near[0] - far[0])).toBeGreaterThan(
    freezingBound({ queryNorm: 0.2, dim: 1, scale: 0.1, rate: 0, depth: 3 }) / 3,
  ); // a third of the bound fails
});
test('a fit raised by its largest error lies above every point', () => {
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0.01, max: 50, noNaN: true }), { minLength: 2, maxLength: 9 }), (ys) => {
      const points = ys.map((y, x) => [x, y] as const),
        fit = fitDecay(points),
        over = covering(fit);
      for (const [x, y] of points) expect(y).toBeLessThanOrEqual(over.scale * Math.exp(-over.rate * x) * (1 + 1e-9));
      expect(points.some(([x, y]) => y > over.scale * Math.exp(-over.rate * x) * (1 - 1e-9))).toBe(true);
      expect(fit.above).toBeGreaterThanOrEqual(fit.error / Math.sqrt(ys.length) - EPS);
    }),
    { numRuns: 60 },
  );
});
test('quantised logits: a set chosen with logits off by η drops at most δ* + 2 η', () => {
  fc.assert(
    fc.property(vectors, fc.double({ min: 0, max: 0.4, noNaN: true }), ({ n, seed, size }, eta) => {
      const logits = Array.from({ length: n }, (_, i) => noise(seed)(i) * 3),
        off = logits.map((x, i) => x + eta * noise(seed + 5)(i)),
        w = logits.map(Math.exp);
      const set = heaviest(off.map(Math.exp), size);
      expect(droppedMass(w, set)).toBeLessThanOrEqual(quantisedBound(certificate(w, set).best, eta) + EPS);
    }),
    { numRuns: 60 },
  );
  const [was, off] = [
    [Math.exp(0.1), Math.exp(-0.1)],
    [0, 1],
  ];
  const { best } = certificate(was, [0]),
    dropped = droppedMass(was, heaviest(off, 1)); // the two logits change places
  expect(dropped).toBeLessThanOrEqual(quantisedBound(best, 0.1));
  expect(dropped - best).toBeGreaterThan(quantisedBound(0, 0.1) / 2.1); // less than half of the bound fails
});
test('under attention that decays with age, a window drops what its bound says, and the inversion gives the window', () => {
  const rate = 0.05,
    sinkMass = 0.3,
    t = 400,
    ages = Array.from({ length: t + 1 }, (_, age) => Math.exp(-rate * age)),
    all = ages.reduce((a, b) => a + b, 0);
  for (const window of [1, 20, 100])
    expect((1 - sinkMass) * (ages.slice(window).reduce((a, b) => a + b, 0) / all)).toBeLessThanOrEqual(
      windowBound({ sinkMass, rate, window }) + EPS,
    );
  const part = windowShare({ sinkMass, allowed: 0.01, rate, t });
  expect(windowBound({ sinkMass, rate, window: part * t })).toBeCloseTo(0.01, 10);
  const depth = freezingDepth({ queryNorm: 8, dim: 16, scale: 3, rate: 0.7, allowed: 0.02 });
  expect(freezingBound({ queryNorm: 8, dim: 16, scale: 3, rate: 0.7, depth })).toBeCloseTo(0.02, 10);
  expect([
    jointBound(0.25, 0.5),
    jointBound(0.7, 0.7),
    freezingBound({ queryNorm: 80, dim: 1, scale: 3, rate: 1, depth: 0 }),
  ]).toEqual([0.75, 1, 1]);
});
test('a decay is fitted with its error', () => {
  const exact = fitDecay([0, 1, 2, 5].map((x) => [x, 3 * Math.exp(-0.5 * x)] as const));
  expect([exact.scale, exact.rate, exact.error].map((x) => Math.round(x * 1e9) / 1e9)).toEqual([3, 0.5, 0]);
  expect(
    fitDecay([
      [0, 1],
      [1, Math.E],
      [2, 1],
    ]).error,
  ).toBeCloseTo(Math.sqrt(2) / 3, 10); // 0, 1, 0 about their mean
  expect(
    fitDecay([
      [0, 1],
      [1, Math.E],
      [2, 1],
    ]).above,
  ).toBeCloseTo(2 / 3, 10);
  expect(() => fitDecay([[0, 1]])).toThrow('at least two points');
  expect(() =>
    fitDecay([
      [0, 1],
      [1, 0],
    ]),
  ).toThrow('y above 0');
  expect(() =>
    fitDecay([
      [1, 1],
      [1, 2],
    ]),
  ).toThrow('two places');
});
test('values by hand', () => {
  expect(droppedMass([1, 2, 1], [1])).toBe(0.5);
  expect(certificate([1, 2, 1], [0, 1])).toMatchObject({ dropped: 0.25, best: 0.25, overlap: 1 });
  expect(certificate([4, 1, 3], [0, 1])).toMatchObject({ dropped: 0.375, best: 0.125, overlap: 0.5 });
  expect(informationBound(0.5, 4)).toBeCloseTo(2 * (Math.LN2 + 0.5 * Math.log(4)), 12);
  expect(retrievalRatio(12, { heads: 3, layers: 2, steps: 16 })).toBe(0.125);
  expect(() => droppedMass([1, -1], [0])).toThrow('got -1 in slot 1');
  expect(() => droppedMass([0], [0])).toThrow('some mass');
  expect(() => droppedMass([1], [1])).toThrow('from 0 to 0, got 1');
});
