import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, positions, scoreTransform, unit } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, selectorLaws } from '@kv/laws';
import { quota } from '../src/index.ts';
import { quotaOracle } from './quota.oracle.ts';

const parts = (size: number) =>
  unit('parts', { needs: [positions] }, ({ ops, at, scores, positions: p }) => {
    const of = ops.take(
        ops.from({
          data: Uint32Array.from({ length: at.length }, (_, i) => Math.floor(i / size)),
          shape: [1, at.length],
        }),
        p,
      ),
      count = Math.ceil(at.length / size);
    return { units: { of, count }, scores: ops.groupSlots('mean', scores, of, count) };
  })();
describe('without units', () => {
  each(selectorLaws(quota(), { nested: true, runs: 50 }), test);
});
// slots of one score in two units go by the sizes of these
const { ties: _, ...laws } = selectorLaws(compose(parts(3), quota()), { nested: true, runs: 50 });
describe('over threes', () => {
  each(laws, test);
});

const cases = fc
  .record({
    row: fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 16 }),
    size: fc.integer({ min: 1, max: 6 }),
    budget: fc.nat(16),
    cut: fc.nat(3),
  })
  .chain((c) =>
    fc.record({
      c: fc.constant(c),
      some: fc.shuffledSubarray(
        c.row.map((__, i) => i),
        { maxLength: Math.min(5, c.row.length) },
      ),
    }),
  );
const cutInto = (row: readonly number[], size: number) =>
  unit('blocks', {}, ({ ops }) => ({
    units: {
      of: ops.from({ data: Uint32Array.from(row, (__, i) => Math.floor(i / size)), shape: [1, row.length] }),
      count: Math.ceil(row.length / size),
    },
    scores: ops.from({
      data: new Float32Array(Math.ceil(row.length / size)),
      shape: [1, Math.ceil(row.length / size)],
    }),
  }))();
test('agrees with the oracle under masks', () => {
  fc.assert(
    fc.property(cases, ({ c: { row, size, budget, cut }, some }) => {
      const n = row.length,
        forced = some.slice(0, cut),
        banned = some.slice(cut),
        room = Math.max(budget, forced.length),
        mask = (set: readonly number[]): Float32Array => Float32Array.from(row, (__, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores }) => ({
        scores,
        forced: ops.from({ data: mask(forced), shape: [1, n] }),
        banned: ops.from({ data: mask(banned), shape: [1, n] }),
      }))();
      expect(apply(compose(masks, cutInto(row, size), quota()), { scores: [row], budget: room }).kept).toEqual([
        quotaOracle(
          row,
          row.map((__, i) => Math.floor(i / size)),
          Math.min(room, n),
          forced,
          banned,
        ),
      ]);
    }),
    { numRuns: 200 },
  );
});
test('every unit keeps at least its share, rounded down, and its best', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.integer({ min: -99, max: 99 }), { minLength: 1, maxLength: 24 }),
      fc.integer({ min: 1, max: 8 }),
      fc.nat(24),
      (row, size, asked) => {
        const n = row.length,
          budget = Math.min(asked, n),
          [kept = []] = apply(compose(cutInto(row, size), quota()), { scores: [row], budget }).kept!;
        for (let from = 0; from < n; from += size) {
          const own = row
              .map((s, i) => ({ s, i }))
              .slice(from, from + size)
              .sort((a, b) => b.s - a.s),
            mine = kept.filter((i) => i >= from && i < from + size);
          expect(mine.length).toBeGreaterThanOrEqual(Math.floor((own.length * budget) / n));
          expect(mine).toEqual(
            own
              .slice(0, mine.length)
              .map(({ i }) => i)
              .sort((a, b) => a - b),
          );
        }
      },
    ),
    { numRuns: 150 },
  );
});
