import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scorer, scoreTransform } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { mass } from '../src/index.ts';
import { massOracle } from './mass.oracle.ts';

// it replaces the requested total
describe('an allocator', () => {
  each(scoreAllocatorLaws(mass({ epsilon: 0.3 }), { slack: Number.POSITIVE_INFINITY }), test);
});

const noise =
  (seed: number) =>
  (i: number): number => {
    const x = Math.sin(seed * 12.9898 + i * 78.233) * 43758.5453;
    return Math.fround((x - Math.floor(x)) ** 3 + 1e-3);
  };
const cases = fc.record({
  n: fc.integer({ min: 1, max: 20 }),
  kvHeads: fc.integer({ min: 1, max: 3 }),
  group: fc.integer({ min: 1, max: 3 }),
  seed: fc.integer({ min: 1, max: 9999 }),
  epsilon: fc.constantFrom(0, 0.01, 0.1, 0.37, 0.9),
  /** Share of the learned sinks. */
  sink: fc.constantFrom(0, 0, 0.25, 0.95),
  forced: fc.nat(2),
  banned: fc.nat(2),
});
test('agrees with the float64 oracle, and one slot fewer would drop more', () => {
  fc.assert(
    fc.property(cases, ({ n, kvHeads, group, seed, epsilon, sink, forced, banned }) => {
      const scores = Array.from({ length: kvHeads * group }, (_, h) => {
        const row = Array.from({ length: n }, (_i, i) => noise(seed)(h * n + i)),
          whole = row.reduce((sum, x) => sum + x, 0) / (1 - sink);
        return sink === 0 ? row : row.map((x) => x / whole);
      });
      const must = Array.from({ length: Math.min(forced, n) }, (_, i) => i),
        not = Array.from({ length: Math.min(banned, n - must.length) }, (_, i) => n - 1 - i),
        mask = (set: readonly number[]) => Float32Array.from({ length: n }, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores: s }) => ({
        scores: s,
        forced: ops.from({ data: mask(must), shape: [1, n] }),
        banned: ops.from({ data: mask(not), shape: [1, n] }),
      }))();
      const { budgets } = apply(compose(masks, mass({ epsilon })), {
        scores,
        at: {
          kvHeads,
          queryHeads: kvHeads * group,
          ...(sink > 0 && { learnedSinks: new Float32Array(kvHeads * group) }),
        },
        budget: 1,
      });
      if (epsilon > 0)
        expect(budgets).toEqual(
          Array.from({ length: kvHeads }, (_, g) =>
            massOracle(scores.slice(g * group, (g + 1) * group), epsilon, must, not, sink),
          ),
        );
      // the last of many weights may be lost in the rounding of f32
      else budgets.forEach((b) => expect(b).toBeGreaterThanOrEqual(n - 1));
    }),
  );
});
test('a head with spread attention keeps more than one with a peak', () => {
  expect(
    apply(mass({ epsilon: 0.2 }), {
      scores: [
        [0.25, 0.25, 0.25, 0.25],
        [0.85, 0.05, 0.05, 0.05],
      ],
      budget: 2,
    }).budgets,
  ).toEqual([4, 1]);
});
test('epsilon is checked, and scores that may be negative have no mass', () => {
  expect(() => mass({ epsilon: 1 })).toThrow('mass: epsilon must be a number of at least 0 and below 1, got 1');
  const minus = scorer('minus', {}, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots).fill(-1), shape: [1, at.slots] }),
  )();
  // @ts-expect-error the compiler says the same
  expect(() => compose(minus, mass())).toThrow("'mass' needs weights (scores of at least 0)");
});
