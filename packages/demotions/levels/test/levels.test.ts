import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, meanSlotBytes, scoreTransform, selector } from '@kv/core';
import { compile } from '@kv/core/engine';
import { apply } from '@kv/cpu';
import { demotionLaws, each } from '@kv/laws';
import { levels } from '../src/index.ts';
import { levelsOracle } from './levels.oracle.ts';

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));

describe.each([levels(), levels({ f16: 0.1, q8: 0.3, k8v4: 0.3, q4: 0.3 })])('$label', (piece) => {
  each(demotionLaws(piece, { runs: 25, monotone: true }), test);
});

/** Percentages of a hundred, most of them of two or three levels. */
const percents = fc
  .record({
    cuts: fc.array(fc.integer({ min: 0, max: 100 }), { minLength: 4, maxLength: 4 }),
    from: fc.constantFrom(['f32', 'f16', 'q8', 'k8v4', 'q4'], ['q8', 'q4'], ['q8', 'k8v4', 'q4']),
  })
  .map(({ cuts, from }) => {
    const ends = [...cuts.slice(0, from.length - 1).sort((a, b) => a - b), 100];
    return Object.fromEntries(from.map((level, i) => [level, ends[i] - (ends[i - 1] ?? 0)]));
  });
const cases = fc
  .record({
    row: fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 40 }),
    budget: fc.nat(40),
    percent: percents,
  })
  .chain((c) =>
    fc.record({
      c: fc.constant(c),
      forced: fc.shuffledSubarray(
        c.row.map((_, i) => i),
        { maxLength: Math.min(6, c.row.length) },
      ),
    }),
  );
test('agrees with the oracle', () => {
  fc.assert(
    fc.property(cases, ({ c: { row, budget, percent }, forced }) => {
      const masked = scoreTransform('masked', {}, ({ ops, scores }) => ({
          scores,
          forced: ops.from({
            data: Float32Array.from(row, (_, i) => Number(forced.includes(i))),
            shape: [1, row.length],
          }),
        }))(),
        shares = Object.fromEntries(Object.entries(percent).map(([level, of]) => [level, of / 100])),
        got = apply(compose(masked, topK(), levels(shares)), {
          scores: [row],
          budget: Math.max(budget, forced.length),
        });
      expect(got.levels).toEqual([levelsOracle(row, got.kept[0] ?? [], forced, percent)]);
    }),
    { numRuns: 150 },
  );
});

test('of two demotions a slot takes the coarser level', () => {
  const scores = [[4, 3, 2, 1]],
    both = compose(topK(), levels({ q8: 0.5, q4: 0.5 }), levels({ f16: 0.25, k8v4: 0.75 }));
  expect(apply(both, { scores }).levels).toEqual([['q8', 'k8v4', 'q4', 'q4']]);
  expect(
    meanSlotBytes(compile(both).levels ?? [], (level) => ({ f32: 32, f16: 16, q8: 8, k8v4: 6, q4: 4 })[level]),
  ).toBe(6);
});

test('refuses shares that are no whole', () => {
  expect(() => levels({ q8: 0.9 })).toThrow('levels: expected shares whose sum is 1, such as q8=0.25,q4=0.75, got 0.9');
});
