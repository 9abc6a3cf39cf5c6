import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, scoreTransform } from '@kv/core';
import { apply } from '@kv/cpu';
import { topK } from '../src/index.ts';
import { topKOracle } from './top-k.oracle.ts';

const scores = fc.array(fc.oneof(fc.integer({ min: -3, max: 3 }), fc.float({ noNaN: true, noDefaultInfinity: true })), {
  minLength: 1,
  maxLength: 20,
});
/** Scores with disjoint masks, as the first and the last part of a shuffled subset. */
const masked = scores.chain((row) =>
  fc.record({
    row: fc.constant(row),
    some: fc.shuffledSubarray(row.map((_, i) => i)),
    cut: fc.nat(4),
    budget: fc.nat(22),
  }),
);

test('agrees with the float64 oracle under masks, for every budget that covers the forced slots', () => {
  fc.assert(
    fc.property(masked, ({ row, some, cut, budget }) => {
      const forced = some.slice(0, cut),
        banned = some.slice(cut),
        room = Math.max(budget, forced.length);
      const mask = (set: readonly number[]): Float32Array => Float32Array.from(row, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores: s }) => ({
        scores: s,
        forced: ops.from({ data: mask(forced), shape: [1, row.length] }),
        banned: ops.from({ data: mask(banned), shape: [1, row.length] }),
      }))();
      expect(apply(compose(masks, topK()), { scores: [row], budget: room }).kept).toEqual([
        topKOracle(row, Math.min(room, row.length), forced, banned),
      ]);
    }),
  );
});

test('query rows are averaged over the heads of a group', () => {
  expect(
    apply(topK(), {
      scores: [
        [0, 3, 1],
        [5, 0, 1],
      ],
      budget: 1,
      at: { kvHeads: 1 },
    }).kept,
  ).toEqual([[0]]);
});
