import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { clusteredError, interpolate, mcnemar, pairedDifference, pairedTest, spearman, wilson } from '../src/index.ts';

describe('wilson', () => {
  it("agrees with statsmodels' own test", () => {
    const { low, high } = wilson(19, 38);
    expect(low).toBeCloseTo(0.348499283643951, 14);
    expect(high).toBeCloseTo(0.651500716356049, 14);
  });
  it('stays inside [0, 1] and around the proportion, and mirrors', () =>
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.nat(500), (n, draw) => {
        const hits = draw % (n + 1);
        const { low, high } = wilson(hits, n),
          mirror = wilson(n - hits, n);
        expect(low).toBeGreaterThanOrEqual(0);
        expect(high).toBeLessThanOrEqual(1);
        expect(low).toBeLessThanOrEqual(hits / n);
        expect(high).toBeGreaterThanOrEqual(hits / n);
        expect(mirror.low).toBeCloseTo(1 - high, 12);
      }),
    ));
  it('says nothing without observations and refuses impossible counts', () => {
    expect(wilson(0, 0)).toEqual({ low: 0, high: 1 });
    expect(() => wilson(3, 2)).toThrow('wilson: hits must be a whole number from 0 to n (2), got 3');
  });
});

describe('pairedDifference', () => {
  it('of equal arms is nothing, with p = 1', () =>
    expect(pairedDifference([[0], [0, 0], [0]])).toEqual({ difference: 0, low: 0, high: 0, p: 1 }));
  it('has a wider interval at a higher level, and the same difference', () => {
    const clusters = [[0.1], [0.4], [-0.2], [0.3], [0.05]],
      [one, two] = [0.9, 0.999].map((level) => pairedDifference(clusters, { level }));
    expect(two.low).toBeLessThan(one.low);
    expect(two.high).toBeGreaterThan(one.high);
    expect(two.difference).toBe(one.difference);
    expect(() => pairedDifference(clusters, { level: 1 })).toThrow(
      'pairedDifference: expected a level between 0 and 1, got 1',
    );
  });
  it('never has p = 0, and counts ties that rounding splits', () => {
    expect(pairedDifference([[1], [1], [1]], { resamples: 999 }).p).toBe(2 / 1000);
    expect(
      pairedDifference(
        [
          [0.1, 0.2, -0.3],
          [0.3, -0.1, -0.2],
        ],
        { resamples: 99 },
      ).p,
    ).toBe(1);
  });
  it('of clusters that all say the same reaches as far as those that were not seen may move it', () => {
    const within = [-1, 1] as const,
      { low, high } = pairedDifference(
        Array.from({ length: 20 }, () => [0, 0]),
        { within },
      );
    expect(high).toBeCloseTo(0.1684, 4); // Clopper and Pearson's upper end of 0 of 20
    expect(low).toBe(-high);
    expect(pairedDifference([[0.5], [0.25, 0.75]], { within: [0, 1] }).low).toBeCloseTo(0.5 * 0.025 ** 0.5, 12);
    expect(pairedDifference([[0.5], [0.5]])).toMatchObject({ low: 0.5, high: 0.5 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 16 }), fc.constantFrom(-1, 0, 1), (n, says) => {
        const found = pairedTest(
          Array.from({ length: n }, () => [says]),
          { within, resamples: 200 },
        );
        expect(found.low <= 0 && found.high >= 0).toBe(2 ** (1 - n) > 0.05 || says === 0); // as the exact test says
        expect(found.low).toBeGreaterThanOrEqual(-1);
        expect(found.high).toBeLessThanOrEqual(1);
      }),
    );
    fc.assert(
      fc.property(someClusters, (clusters) => {
        const means = clusters.map((cluster) => cluster.reduce((a, b) => a + b, 0) / cluster.length);
        fc.pre(Math.max(...means) - Math.min(...means) > 1e-6);
        expect(pairedDifference(clusters, { within, resamples: 50 })).toEqual(
          pairedDifference(clusters, { resamples: 50 }),
        );
      }),
    );
  });
  it('refuses no data', () =>
    expect(() => pairedDifference([])).toThrow('pairedDifference: expected at least one difference, got none'));
});

/** Returns the share of all sign patterns of the clusters whose mean is at least as far from 0, by enumeration. */
function bySigns(clusters: readonly (readonly number[])[]): number {
  const sums = clusters.map((cluster) => cluster.reduce((a, b) => a + b, 0)),
    far = (signs: number): number => Math.abs(sums.reduce((total, x, i) => total + (signs & (1 << i) ? -x : x), 0)),
    all = Array.from({ length: 2 ** sums.length }, (_, signs) => far(signs));
  return all.filter((one) => one >= far(0)).length / all.length;
}
type Test = typeof pairedTest;
const options = { resamples: 200 };
/** Dyadic numbers, so that sums are exact and ties are ties. */
const someClusters = fc.array(
  fc.array(
    fc.integer({ min: -4, max: 4 }).map((x) => x / 4),
    { minLength: 1, maxLength: 3 },
  ),
  { minLength: 1, maxLength: 7 },
);
const laws = {
  'p is no less than that of all signs that the clusters could have': (test: Test) =>
    fc.property(someClusters, (clusters) => test(clusters, options).p >= bySigns(clusters)),
  'p is no less than the bootstrap says': (test: Test) =>
    fc.property(someClusters, (clusters) => test(clusters, options).p >= pairedDifference(clusters, options).p),
  'p is one of these two, and the rest is the bootstrap': (test: Test) =>
    fc.property(someClusters, (clusters) => {
      const { p, ...rest } = pairedDifference(clusters, options),
        { p: tested, ...others } = test(clusters, options);
      expect(others).toEqual(rest);
      expect([p, bySigns(clusters)]).toContain(tested);
    }),
} as const;
type Law = keyof typeof laws;
const broken = (law: Law, test: Test): boolean => fc.check<[number[][]]>(laws[law](test), { numRuns: 100 }).failed;
/** Each mutant breaks one law. */
const mutants: Readonly<Record<Law, Test>> = {
  // the bootstrap alone, for which one problem is proof
  'p is no less than that of all signs that the clusters could have': pairedDifference,
  // the signs alone
  'p is no less than the bootstrap says': (clusters) => ({
    ...pairedDifference(clusters, options),
    p: bySigns(clusters),
  }),
  // one tail
  'p is one of these two, and the rest is the bootstrap': (clusters) => {
    const found = pairedTest(clusters, options);
    return { ...found, p: found.p / 2 };
  },
};
describe('pairedTest', () => {
  it.each(Object.keys(laws) as Law[])('%s', (law) => expect(broken(law, pairedTest)).toBe(false));
  it.each(Object.entries(mutants) as [Law, Test][])('a mutant breaks the law: %s', (law, mutant) =>
    expect(broken(law, mutant)).toBe(true),
  );
  it('takes the sum of a cluster, not its members: signs turned one by one are caught', () =>
    expect(
      broken('p is no less than that of all signs that the clusters could have', (clusters) =>
        pairedTest(
          clusters.flat().map((one) => [one]),
          options,
        ),
      ),
    ).toBe(true));
  it('of right and wrong answers is no smaller than McNemar says, and draws signs of many as they are', () => {
    const apart = (better: number, worse: number): number =>
      pairedTest([...Array<number[]>(better).fill([1]), ...Array<number[]>(worse).fill([-1]), [0], [0]]).p;
    for (const [better, worse] of [
      [1, 6],
      [5, 10],
      [12, 3],
    ] as const)
      expect(apart(better, worse)).toBeGreaterThan(mcnemar(better, worse) - 1e-12);
    expect(apart(30, 14) / mcnemar(30, 14)).toBeCloseTo(1, 0);
  });
  it('of one problem says nothing, of eight all worse .0078, of many what the draws say', () => {
    const worse = (n: number): number => pairedTest(Array.from({ length: n }, () => [-1, -1])).p;
    expect([worse(1), worse(8), worse(40)]).toEqual([1, 2 ** -7, 2 / 10_001]);
    expect(pairedTest([[0.1, 0.2, -0.3], [0]]).p).toBe(1);
  });
});

describe('errors of clusters', () => {
  it('know one cluster and none', () => {
    expect(clusteredError([[1, 0]])).toBe(0);
    expect(() => clusteredError([[]])).toThrow('clusteredError: expected at least one member, got none');
  });
});

describe('interpolate', () => {
  it('is linear between points in any order, and nothing outside them', () => {
    const points = [
      [4, 0.5],
      [2, 0.25],
      [8, 0.75],
    ] as const;
    expect([2, 3, 4, 6, 8].map((x) => interpolate(points, x))).toEqual([0.25, 0.375, 0.5, 0.625, 0.75]);
    expect([interpolate(points, 1), interpolate(points, 9), interpolate([], 1)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('mcnemar', () => {
  it('counts by hand, is symmetric, at most 1, and finite for many pairs', () => {
    expect(mcnemar(3, 1)).toBeCloseTo((2 * (1 + 4)) / 16, 12);
    expect([mcnemar(5, 2) - mcnemar(2, 5), mcnemar(4, 4)]).toEqual([0, 1]);
    expect(mcnemar(1000, 1100)).toBeGreaterThan(0.02);
    expect(mcnemar(1000, 1100)).toBeLessThan(0.04);
    expect(() => mcnemar(1.5, 2)).toThrow('mcnemar: expected whole numbers of at least 0, got 1.5 and 2');
  });
});

describe('spearman', () => {
  it('is right by hand, with ties', () => {
    expect(spearman([1, 2, 3, 4], [10, 20, 30, 40])).toBeCloseTo(1, 12);
    expect(spearman([1, 2, 3, 4, 5], [5, 6, 7, 8, 7])).toBeCloseTo(0.8207826816681233, 12);
    expect(spearman([1, 2, 3], [3, 2, 1])).toBeCloseTo(-1, 12);
    expect(spearman([1, 1], [1, 2])).toBe(0);
    expect(() => spearman([1, 2, 3], [1, 2])).toThrow('expected as many numbers on both sides, got 3 and 2');
  });
  it('depends on order alone', () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: -50, max: 50 }), fc.integer({ min: -50, max: 50 })), {
          minLength: 2,
          maxLength: 20,
        }),
        (pairs) => {
          const x = pairs.map(([u]) => u),
            y = pairs.map(([, v]) => v);
          expect(
            spearman(
              x.map((u) => Math.exp(u / 10)),
              y.map((v) => v ** 3),
            ),
          ).toBeCloseTo(spearman(x, y), 12);
          expect(spearman(y, x)).toBeCloseTo(spearman(x, y), 12);
        },
      ),
    ));
});
