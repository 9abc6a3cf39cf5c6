import { surprise } from '@kv/evaluation/shared';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { meanSurprise } from '../src/trial.ts';
import type { Contrast, Numbers } from '../src/types.ts';
import { decide, every, measure, shrinkage, signs } from '../src/verdict.ts';
import type { Verdict } from '../src/verdict.ts';

const A = { policy: 'a', budget: 8 },
  B = { policy: 'b', budget: 8 };
const contrast = (more: Partial<Contrast> = {}): Contrast => ({
  task: 't',
  metric: 'hit',
  a: A,
  b: B,
  threshold: 0,
  ...more,
});
const trials = (
  a: readonly number[],
  b: readonly number[],
  metric: 'hit' | 'nll' = 'hit',
  slots: readonly [number, number] = [8, 8],
): Readonly<Record<string, Numbers>>[] =>
  a.map((x, i) => ({ 'a @ 8': { [metric]: x, slots: slots[0] }, 'b @ 8': { [metric]: b[i], slots: slots[1] } }));
const times = (n: number, value: number): number[] => Array.from({ length: n }, () => value);
const verdict = fc.constantFrom<Verdict>('held', 'not', 'undecided'),
  ends = fc
    .tuple(fc.double({ min: -1, max: 1, noNaN: true }), fc.double({ min: -1, max: 1, noNaN: true }))
    .map(([x, y]) => ({ low: Math.min(x, y), high: Math.max(x, y) }));
const RANK: Readonly<Record<Verdict, number>> = { not: 0, undecided: 1, held: 2 };

describe('a verdict', () => {
  it('is the place of the interval: above the threshold, below it, or at it', () => {
    expect([
      decide({ low: 0.1, high: 0.3 }, 0),
      decide({ low: 0, high: 0.3 }, 0),
      decide({ low: -0.2, high: 0 }, 0),
      decide({ low: 0, high: 0 }, 0),
      decide({ low: -0.2, high: -0.1 }, 0),
    ]).toEqual(['held', 'undecided', 'undecided', 'undecided', 'not']);
  });
  it('never rises with the threshold, nor falls as the interval moves up', () =>
    fc.assert(
      fc.property(
        ends,
        fc.double({ min: -1, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (interval, threshold, step) => {
          expect(RANK[decide(interval, threshold + step)]).toBeLessThanOrEqual(RANK[decide(interval, threshold)]);
          expect(
            RANK[decide({ low: interval.low + step, high: interval.high + step }, threshold)],
          ).toBeGreaterThanOrEqual(RANK[decide(interval, threshold)]);
        },
      ),
    ));
  it('never holds for both directions', () =>
    fc.assert(
      fc.property(ends, fc.double({ min: 0, max: 1, noNaN: true }), ({ low, high }, threshold) => {
        expect(
          [decide({ low, high }, threshold), decide({ low: -high, high: -low }, threshold)].filter(
            (one) => one === 'held',
          ).length,
        ).toBeLessThan(2);
      }),
    ));
  it('of a row is its worst contrast, in any order', () =>
    fc.assert(
      fc.property(fc.array(verdict, { minLength: 1, maxLength: 6 }), (verdicts) => {
        const worst = verdicts.reduce((x, y) => (RANK[x] <= RANK[y] ? x : y));
        expect(every(verdicts)).toBe(worst);
        expect(every([...verdicts].reverse())).toBe(worst);
      }),
    ));
  it('of signs holds if all point as promised, and falls if one surely does not', () => {
    const at = (difference: number, half: number): { difference: number; low: number; high: number } => ({
      difference,
      low: difference - half,
      high: difference + half,
    });
    expect([
      signs([at(0.1, 0.5), at(0.2, 0.1)]),
      signs([at(0.1, 0.5), at(0, 0)]),
      signs([at(0.1, 0.5), at(-0.2, 0.1)]),
      signs([]),
    ]).toEqual(['held', 'undecided', 'not', 'undecided']);
  });
});

describe('a contrast', () => {
  it('counts by hand: ten right against two right', () => {
    const a = [...times(10, 1), ...times(2, 0)],
      b = [...times(2, 1), ...times(10, 0)],
      found = measure(contrast(), trials(a, b), 1);
    expect(found).toMatchObject({
      n: 12,
      difference: 8 / 12,
      verdict: 'held',
      a: { mean: 10 / 12, slots: 8 },
      b: { mean: 2 / 12 },
    });
    expect(found.p).toBeCloseTo(2 / 2 ** 8, 12); // eight pairs disagree, all one way
    expect(found.a.interval!.low).toBeCloseTo(0.552, 4); // Wilson, 10 of 12
  });
  it('changes sides with its arms, and with a metric or a promise that turns round', () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 0, max: 8 }), fc.integer({ min: 0, max: 8 })), {
          minLength: 3,
          maxLength: 12,
        }),
        (pairs) => {
          const a = pairs.map(([x]) => x / 8),
            b = pairs.map(([, y]) => y / 8),
            one = measure(contrast({ metric: 'nll' }), trials(a, b, 'nll'), 2),
            turned = measure(contrast({ metric: 'nll' }), trials(b, a, 'nll'), 2),
            worse = measure(contrast({ metric: 'nll', direction: 'worse' }), trials(a, b, 'nll'), 2);
          expect(one.difference).toBeCloseTo(-turned.difference, 12);
          expect(worse.difference).toBeCloseTo(-one.difference, 12);
          expect([one.low, one.high].map((x) => x <= one.high + 1e-12 && x >= one.low - 1e-12)).toEqual([true, true]);
          expect(one.low <= one.difference + 1e-12 && one.difference <= one.high + 1e-12).toBe(true);
        },
      ),
      { numRuns: 12 },
    ));
  it('widens with the number of contrasts in its row', () => {
    const a = [1, 1, 1, 0, 1, 0, 1, 1, 0, 1],
      b = [0, 1, 0, 0, 1, 1, 0, 1, 0, 0],
      alone = measure(contrast(), trials(a, b), 1),
      many = measure(contrast(), trials(a, b), 20);
    expect(many.high - many.low).toBeGreaterThan(alone.high - alone.low);
  });
  it('stays undecided on the floor, at the ceiling and between caches that are not matched', () => {
    expect(measure(contrast(), trials(times(20, 0), times(20, 0)), 1)).toMatchObject({
      verdict: 'undecided',
      because: 'neither arm works here',
    });
    expect(measure(contrast(), trials(times(20, 1), times(20, 1)), 1)).toMatchObject({
      verdict: 'undecided',
      because: 'both arms are right here',
    });
    expect(measure(contrast(), trials(times(20, 1), times(20, 0), 'hit', [9, 8]), 1)).toMatchObject({
      verdict: 'undecided',
      because: 'mean caches are not matched: 9.0 and 8.0 slots',
    });
  });
  it('in which no prompt tells the arms apart is undecided, unless so many prompts bound what the arms may differ by', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(0, 1), { minLength: 1, maxLength: 60 }),
        fc.constantFrom<'hit' | 'nll'>('hit', 'nll'),
        fc.constantFrom(0, 0.1),
        (same, metric, threshold) => {
          const found = measure(contrast({ metric, threshold: -threshold }), trials(same, same, metric), 1),
            bound = 1 - 0.025 ** (1 / same.length);
          expect(found.verdict).toBe(metric === 'hit' && bound < threshold ? 'held' : 'undecided');
          if (metric === 'hit')
            expect([found.low + bound, found.high - bound].every((off) => Math.abs(off) < 1e-12)).toBe(true);
          if (found.verdict === 'undecided') expect(found.because).toMatch(/here$|apart$/);
        },
      ),
    );
    expect(measure(contrast(), trials([1, ...times(7, 0)], [1, ...times(7, 0)]), 1)).toMatchObject({
      verdict: 'undecided',
      because: 'no prompt tells the arms apart',
    });
    expect(measure(contrast({ threshold: -0.02 }), trials(times(200, 1), times(200, 1)), 1).verdict).toBe('held');
  });
  it('depends on the pairs that differ and on its interval alone', () =>
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(0, 1), fc.constantFrom(0, 1)), { minLength: 1, maxLength: 30 }),
        (pairs) => {
          const [a, b] = [pairs.map(([x]) => x), pairs.map(([, y]) => y)],
            { low, high, verdict } = measure(contrast(), trials(a, b), 1);
          if (a.join() === b.join()) expect(verdict).toBe('undecided');
          if (verdict === 'held') expect(low).toBeGreaterThan(0);
          if (verdict === 'not') expect(high).toBeLessThan(0);
        },
      ),
      { numRuns: 40 },
    ));
  it('of one arm is against its threshold', () => {
    const alone = { task: 't', metric: 'nll', a: A, threshold: 2 } as const;
    expect(measure(alone, trials([1, 1.5, 1.2], [0, 0, 0], 'nll'), 1)).toMatchObject({ verdict: 'held' });
    expect(measure(alone, trials([3, 2.5, 2.2], [0, 0, 0], 'nll'), 1)).toMatchObject({ verdict: 'not' });
    expect(measure(alone, trials([1, 1.5, 1.2], [0, 0, 0], 'nll'), 1).difference).toBeCloseTo(2 - 3.7 / 3, 12);
  });
  it('of shrinkage takes the best arm of the first fifty and asks the others', () => {
    const C = { policy: 'c', budget: 8 },
      all = Array.from(
        { length: 100 },
        (_, i): Readonly<Record<string, Numbers>> => ({
          'a @ 8': { hit: i < 25 ? 1 : 0 },
          'b @ 8': { hit: 0 },
          'c @ 8': { hit: i >= 50 || i < 2 ? 1 : 0 },
        }),
      );
    const found = shrinkage([contrast(), contrast({ a: C })], all);
    expect(found).toMatchObject({ contrast: { a: A }, a: { mean: 0.5 }, b: { mean: 0 }, verdict: 'held' });
    expect(found.difference).toBeCloseTo(0.5, 12);
    expect(() => shrinkage([contrast()], all.slice(0, 50))).toThrow('shrinkage: expected more than 50 prompts, got 50');
  });
});

describe('the interval of shrinkage', () => {
  const C = { policy: 'c', budget: 8 };
  const gains = (a: (i: number) => number, c: (i: number) => number, n = 150): Readonly<Record<string, Numbers>>[] =>
    Array.from({ length: n }, (_, i) => ({ 'a @ 8': { hit: a(i) }, 'b @ 8': { hit: 0 }, 'c @ 8': { hit: c(i) } }));
  it('is empty where every prompt gains the same: prompts of one part never stand for those of the other', () => {
    const always = shrinkage(
      [contrast()],
      gains(
        () => 1,
        () => 0,
      ),
    );
    expect([always.difference, always.low, always.high]).toEqual([0, 0, 0]);
    const half = shrinkage(
      [contrast()],
      gains(
        (i) => (i < 50 ? 1 : 0.5),
        () => 0,
      ),
    );
    expect([half.difference, half.low, half.high]).toEqual([0.5, 0.5, 0.5]);
  });
  it('knows that the arm was chosen: of two that are nearly as good either may be', () => {
    const found = shrinkage(
      [contrast(), contrast({ a: C })],
      gains(
        (i) => (i >= 50 || i < 26 ? 1 : 0),
        (i) => (i >= 25 && i < 50 ? 1 : 0),
      ),
    );
    expect([found.contrast.a, found.difference]).toEqual([A, 26 / 50 - 1]);
    expect(found.low).toBeLessThan(-0.2);
    expect(found.high).toBeGreaterThan(0.5);
  });
});

describe('numbers', () => {
  it('surprise is -ln of the softmax, for large logits too', () => {
    expect(surprise(Float32Array.of(0, Math.log(3)), 0)).toBeCloseTo(Math.log(4), 6);
    expect(surprise(Float32Array.of(1000, 1000), 1)).toBeCloseTo(Math.LN2, 6);
    expect(meanSurprise([Float32Array.of(0, 0), Float32Array.of(0, 0, 0, 0), Float32Array.of(9)], [1, 2])).toBeCloseTo(
      (Math.LN2 + Math.log(4)) / 2,
      6,
    );
  });
});
