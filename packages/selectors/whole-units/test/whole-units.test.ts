import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, positions, scoreTransform, unit } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import { apply } from '@kv/cpu';
import { each, selectorLaws } from '@kv/laws';
import { wholeUnits } from '../src/index.ts';
import { wholeUnitsOracle } from './whole-units.oracle.ts';

const pairs = unit('pairs', { needs: [positions] }, ({ ops, at, scores, positions: p }) => {
  const of = ops.take(
      ops.from({ data: Uint32Array.from({ length: at.length }, (_, i) => i >> 1), shape: [1, at.length] }),
      p,
    ),
    count = (at.length + 1) >> 1;
  return { units: { of, count }, scores: ops.groupSlots('mean', scores, of, count) };
})();

describe('without units', () => {
  each(selectorLaws(wholeUnits(), { nested: true, runs: 50 }), test);
});
// slots of one score in two units go with their units
const { ties: _, ...laws } = selectorLaws(compose(pairs, wholeUnits()), {
  runs: 50,
  size: (budget, n, banned) => ({ least: Math.min(budget, n - banned) - 1, most: budget }),
});
describe('over pairs, dropped', () => {
  each(laws, test);
});
const { ties: __, ...filled } = selectorLaws(compose(pairs, wholeUnits({ last: 'fill' })), { runs: 50 });
describe('over pairs, filled', () => {
  each(filled, test);
});

const cases = fc
  .record({
    row: fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 14 }),
    gaps: fc.array(fc.nat(6), { minLength: 14, maxLength: 14 }), // positions evicted before each slot
    lowest: fc.integer({ min: -3, max: 0 }),
    size: fc.integer({ min: 1, max: 5 }),
    budget: fc.oneof(fc.nat(14), fc.nat(2)),
    cut: fc.nat(3),
    last: fc.constantFrom('drop', 'fill'),
  })
  .chain((c) =>
    fc.record({
      c: fc.constant(c),
      some: fc.shuffledSubarray(
        c.row.map((_, i) => i),
        { maxLength: Math.min(5, c.row.length) },
      ),
    }),
  );
test('agrees with the oracle under masks', () => {
  fc.assert(
    fc.property(cases, ({ c: { row, gaps, lowest, size, budget, cut, last }, some }) => {
      const n = row.length,
        forced = some.slice(0, cut),
        banned = some.slice(cut),
        room = Math.max(budget, forced.length),
        of = row.map((_, i) => Math.floor((i + sumOf(gaps.slice(0, i + 1))) / size)),
        count = of[n - 1] + 1;
      const mask = (set: readonly number[]): Float32Array => Float32Array.from(row, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores }) => ({
        scores,
        forced: ops.from({ data: mask(forced), shape: [1, n] }),
        banned: ops.from({ data: mask(banned), shape: [1, n] }),
      }))();
      const unitScores = Array.from({ length: count }, (_, u) => ((u * 7) % 4) + lowest);
      const blocks = unit('blocks', {}, ({ ops }) => ({
        units: { of: ops.from({ data: Uint32Array.from(of), shape: [1, n] }), count },
        scores: ops.from({ data: Float32Array.from(unitScores), shape: [1, count] }),
      }))();
      const { kept } = apply(compose(masks, blocks, wholeUnits({ last })), { scores: [row], budget: room });
      expect(kept).toEqual([wholeUnitsOracle(row, of, unitScores, Math.min(room, n), { forced, banned }, last)]);
    }),
    { numRuns: 1000 },
  );
});

test('a word that is neither is an error', () => {
  expect(() => wholeUnits({ last: 'half' as 'drop' })).toThrow("wholeUnits: last must be 'drop' or 'fill', got 'half'");
});
