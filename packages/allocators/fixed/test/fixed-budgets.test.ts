import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, planBudgets } from '@kv/core/engine';
import { allocatorLaws, each } from '@kv/laws';
import { fixedBudgets } from '../src/index.ts';
import { portions } from './fixed-budgets.oracle.ts';

describe.each([fixedBudgets(), fixedBudgets({ shares: [3] })].map((piece) => [piece.label, piece] as const))(
  '%s',
  (_, piece) => {
    each(allocatorLaws(piece), test);
  },
);

const cases = fc.record({
  layers: fc.integer({ min: 1, max: 5 }),
  heads: fc.integer({ min: 1, max: 3 }),
  budget: fc.nat(40),
  single: fc.boolean(),
  seed: fc.nat(999),
});
test('largest remainders of the shares, where every head has room', () => {
  fc.assert(
    fc.property(cases, ({ layers, heads, budget, single, seed }) => {
      const shares = Array.from({ length: layers }, (_, l) =>
        Array.from({ length: single ? 1 : heads }, (__, g) => ((seed + 1) * (l * 3 + g + 1)) % 7),
      );
      fc.pre(shares.flat().some((x) => x > 0));
      const total = budget * layers * heads,
        each = shares.flatMap((row) => Array.from({ length: heads }, (_, g) => row[single ? 0 : g]));
      const { budgets } = planBudgets(
        compile(fixedBudgets({ shares })),
        budget,
        Array.from({ length: layers }, () => new Array<number>(heads).fill(total)),
      );
      const want = portions(each, total),
        got = budgets.flat();
      expect(got.reduce((a, b) => a + b, 0)).toBe(total);
      const more = want.filter(({ whole }, i) => got[i] > whole),
        same = want.filter(({ whole }, i) => got[i] === whole);
      expect(more.length + same.length).toBe(got.length);
      got.forEach((b, i) => expect(b - want[i].whole).toBeLessThanOrEqual(1));
      for (const { rest } of more) for (const other of same) expect(rest).toBeGreaterThan(other.rest - 1e-9);
    }),
    { numRuns: 100 },
  );
});

test('layers and heads by text or by arrays, and the label is read back', () => {
  expect(fixedBudgets({ shares: ' 0.5   1/0.25 ' }).label).toBe('fixedBudgets(shares=0.5 1/0.25)');
  expect(fixedBudgets({ shares: [0.5, [1, 0.25]] }).label).toBe('fixedBudgets(shares=0.5 1/0.25)');
  expect(
    planBudgets(compile(fixedBudgets({ shares: '180 120 60 120' })), 120, [[240], [240], [240], [240]]).budgets,
  ).toEqual([[180], [120], [60], [120]]);
});
test.each([
  [
    'no number',
    '1 a',
    "fixedBudgets: shares must be numbers of at least 0, layers between spaces and heads between slashes, such as '0.5 1/0.25', got '1 a'",
  ],
  ['negative', '-1', 'fixedBudgets: shares must be numbers of at least 0'],
  ['nothing', '', 'fixedBudgets: shares must be numbers of at least 0'],
  ['a layer without numbers', [[]], 'fixedBudgets: shares must be numbers of at least 0'],
  ['all 0', '0 0', 'fixedBudgets: shares must have one above 0, got 0 0'],
])('%s is refused', (_, shares, sentence) => {
  expect(() => fixedBudgets({ shares })).toThrow(sentence);
});
test.each(['1 2', '1/2 1/2 1/2', '1/2/3'])('shares of another model, %s, are refused when planned', (shares) => {
  expect(() =>
    planBudgets(
      compile(fixedBudgets({ shares })),
      5,
      [
        [9, 9],
        [9, 9],
        [9, 9],
      ].slice(0, shares === '1/2 1/2 1/2' ? 2 : 3),
    ),
  ).toThrow('fixedBudgets: shares must be of 1 or');
});
