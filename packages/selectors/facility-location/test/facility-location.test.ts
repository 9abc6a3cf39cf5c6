import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scorer, scoreTransform } from '@kv/core';
import { apply, cpu, readCpu } from '@kv/cpu';
import { each, kernelLaws, selectorLaws } from '@kv/laws';
import { facilityLocation, greedyCover } from '../src/index.ts';
import { bestSet, covered, greedyOracle } from './facility-location.oracle.ts';
import type { Site } from './facility-location.oracle.ts';
import { laws } from './laws.ts';
import type { Law, Nest, Subject } from './laws.ts';
import { flat, kernels, noise, put, siteOf } from './sites.ts';

describe.each([facilityLocation(), facilityLocation({ of: 'keys' })].map((piece) => [piece.label, piece] as const))(
  '%s',
  (_, piece) => {
    each(selectorLaws(piece, { nested: true, runs: 20 }), test);
  },
);

const cases = fc.record({
  n: fc.integer({ min: 1, max: 14 }),
  d: fc.integer({ min: 2, max: 5 }),
  heads: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 2 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  budget: fc.nat(15),
  forced: fc.nat(3),
  banned: fc.nat(3),
  of: fc.constantFrom('values' as const, 'keys' as const),
});
const sorted = (set: readonly number[]): number[] => [...set].sort((a, b) => a - b);

test('agrees with plain greedy in float64, under masks and GQA', () => {
  fc.assert(
    fc.property(cases, ({ n, d, heads, group, seed, budget, forced, banned, of }) => {
      const sites = Array.from({ length: heads }, (_, g) => siteOf(n, d, seed + 10 * g));
      // the query heads of a group differ about their mean
      const scores = sites.flatMap(({ weights }) =>
        Array.from({ length: group }, (_, r) => weights.map((w) => (group === 1 ? w : r === 0 ? w / 2 : 1.5 * w))),
      );
      const order = sorted(Array.from({ length: n }, (_, i) => i)).sort(
        (a, b) => noise(seed + 5)(a) - noise(seed + 5)(b),
      );
      const must = sorted(order.slice(0, forced));
      const not = order.slice(must.length, must.length + banned);
      const mask = (set: readonly number[]) => Float32Array.from(order, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores: s }) => ({
        scores: s,
        forced: ops.from({ data: mask(must), shape: [1, n] }),
        banned: ops.from({ data: mask(not), shape: [1, n] }),
      }));
      const room = Math.max(budget, must.length);
      const vectors = {
        data: Float32Array.from(sites.flatMap((s) => s.vectors.flat())),
        shape: [heads, n, d],
      };
      const weights = compose(masks(), facilityLocation({ of }));
      const { kept } = apply(weights, {
        scores,
        [of]: vectors,
        budget: room,
        at: { kvHeads: heads, queryHeads: heads * group },
      });
      expect(kept).toEqual(sites.map((site) => sorted(greedyOracle(site, room, must, not))));
    }),
    { numRuns: 80 },
  );
});

/** Returns the kernel's coverage of a row by a set: the set is forced, and no other slot is picked. */
function value(site: Site, set: readonly number[]): number {
  const n = site.weights.length;
  const row = (data: readonly number[]) => put({ data: Float32Array.from(data), shape: [1, data.length] });
  const picked = cpu.ops.kernel(greedyCover, {
    weights: row(site.weights),
    vectors: put({
      data: Float32Array.from(site.vectors.flatMap((v) => v.map((x) => x / (Math.hypot(...v) || 1)))),
      shape: [1, n, site.vectors[0].length],
    }),
    gains: row(new Array<number>(n).fill(0)),
    mask: row(site.weights.map((_, i) => Number(set.includes(i)))),
    budgets: row([set.length]),
  });
  const { data } = readCpu(picked);
  return site.weights.reduce((sum, w, i) => sum + w * data[2 * i + 1], 0);
}
const choose = (site: Site, budget: number): readonly number[] =>
  apply(facilityLocation(), { scores: [site.weights], values: flat(site), budget }).kept?.[0] ?? [];
const whole: Subject = { value, choose };

/** Rows with groups of like vectors, zero vectors and zero weights; sets that leave some slot out. */
const rows: fc.Arbitrary<readonly [Site, Nest]> = fc.integer({ min: 3, max: 8 }).chain((n) =>
  fc.tuple(
    fc.record({
      weights: fc.array(fc.constantFrom(0, 0.125, 0.5, 0.75, 1), { minLength: n, maxLength: n }),
      vectors: fc.array(fc.array(fc.integer({ min: -2, max: 2 }), { minLength: 2, maxLength: 2 }), {
        minLength: n,
        maxLength: n,
      }),
    }),
    fc
      .record({
        order: fc.shuffledSubarray(
          Array.from({ length: n }, (_, i) => i),
          { minLength: n },
        ),
        large: fc.integer({ min: 1, max: n - 2 }),
        small: fc.nat(),
      })
      .map(({ order, large, small }) => ({
        small: order.slice(0, 1 + (small % large)),
        large: order.slice(0, large),
        slot: order[large],
      })),
  ),
);
const broken = (law: Law, subject: Subject) =>
  fc.check(
    fc.property(rows, ([site, nest]) => laws[law](subject, site, nest)),
    { numRuns: 300 },
  ).failed;
describe('laws', () => {
  test.each(Object.keys(laws) as Law[])('%s', (law) => {
    expect(broken(law, whole)).toBe(false);
  });
  test('the kernel covers what the definition says', () => {
    fc.assert(
      fc.property(rows, ([site, { large }]) => {
        expect(Math.abs(value(site, large) - covered(site, large))).toBeLessThan(1e-5);
      }),
    );
  });
});
/** Mutants: each breaks at least one law. */
const mutants: Readonly<Record<Law, Subject>> = {
  // the last slot of a set covers alone
  monotone: { ...whole, value: (site, set) => value(site, set.slice(-1)) },
  // more than one slot is worth more than its parts
  'diminishing returns': { ...whole, value: (site, set) => value(site, set) ** 2 },
  // the largest weights, however alike
  guarantee: {
    ...whole,
    choose: ({ weights }, budget) =>
      weights
        .map((_, i) => i)
        .sort((a, b) => weights[b] - weights[a] || a - b)
        .slice(0, budget),
  },
  // the best set of every size
  nested: { ...whole, choose: bestSet },
};
describe('a mutant breaks the law', () => {
  test.each(Object.entries(mutants) as [Law, Subject][])('%s', (law, mutant) => {
    expect(broken(law, mutant)).toBe(true);
  });
});

test('of like slots one is kept: top-k would keep both of the larger weights', () => {
  const values = { data: Float32Array.of(1, 0, 2, 0, 0, 1), shape: [1, 3, 2] };
  expect(apply(facilityLocation(), { scores: [[3, 2.9, 1]], values, budget: 2 }).kept).toEqual([[0, 2]]);
});
test('a banned slot is covered all the same, by what is like it', () => {
  const ban = scoreTransform('ban', {}, ({ ops, scores }) => ({
    scores,
    banned: ops.from({ data: Float32Array.of(1, 0, 0), shape: [1, 3] }),
  }));
  const values = { data: Float32Array.of(1, 0, 1, 0, 0, 1), shape: [1, 3, 2] };
  // the second covers the first, whose weight is more than the third's
  expect(apply(compose(ban(), facilityLocation()), { scores: [[5, 1, 4]], values, budget: 1 }).kept).toEqual([[1]]);
});
test('a zero vector covers nothing, opposite vectors neither, and where nothing is left to cover the lower slot stays', () => {
  const values = { data: Float32Array.of(0, 0, -1, 0, 1, 0, 1, 0), shape: [1, 4, 2] };
  expect(
    [1, 2, 3].map((budget) => apply(facilityLocation(), { scores: [[9, 2, 1, 2]], values, budget }).kept?.[0]),
  ).toEqual([[2], [1, 2], [0, 1, 2]]);
});
test('vectors of any length: from the smallest normal f32 to the largest', () => {
  const values = { data: Float32Array.of(2e-38, 0, 3e38, 3e38, 0, 2e-38, 1e-20, 1e-20), shape: [1, 4, 2] };
  const site: Site = {
    weights: [1, 1.5, 1, 1],
    vectors: [
      [1, 0],
      [1, 1],
      [0, 1],
      [1, 1],
    ],
  };
  for (const budget of [1, 2, 3])
    expect(apply(facilityLocation(), { scores: [[...site.weights]], values, budget }).kept?.[0]).toEqual(
      sorted(greedyOracle(site, budget)),
    );
});
test('scores that may be negative do not compose with it', () => {
  const minus = scorer('minus', {}, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots).fill(-1), shape: [1, at.slots] }),
  );
  // @ts-expect-error the compiler says the same
  expect(() => compose(minus(), facilityLocation())).toThrow("'facilityLocation' needs weights (scores of at least 0)");
});
test('another word than values or keys is refused', () => {
  expect(() => facilityLocation({ of: 'queries' as 'keys' })).toThrow(
    "facilityLocation: of must be 'values' or 'keys', got 'queries'",
  );
});

describe.each(kernels)('the kernel %s', (_, kernel, make) => {
  each(kernelLaws(kernel, { make, runs: 15 }), test);
});
