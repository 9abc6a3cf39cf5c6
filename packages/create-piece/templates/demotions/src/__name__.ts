import { demotion, LEVELS } from '@kv/core';

const [fine, coarse] = [LEVELS.indexOf('q8'), LEVELS.indexOf('q4')];

/**
 * The first half of each head's kept slots in 8 bits, the others in 4. First are forced slots, then those of higher
 * scores, ties to the lower slot.
 *
 * @remarks Source: authors, year, identifier, equation. Kept slots `[rows, n]` to levels, indexes among `LEVELS`. O(rows
 * n log² n).
 */
export const __camel__ = demotion(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'The better half of the kept slots in 8 bits, the others in 4.',
    // what a budget in bytes counts with
    shares: () => ({ q8: 0.5, q4: 0.5 }),
  },
  ({ ops, scores, forced, kept, allot }) => {
    const [half] = allot([ops.map('floor', ops.mul(ops.sum(kept), 0.5))]), // [rows, 1]
      // places among all slots are whole numbers, so that those of forced slots can be moved before all others
      place = ops.sub(ops.rank(scores, 'row'), ops.mul(ops.max(ops.fill(scores, 0), forced), 2 ** 22));
    const best = ops.top(ops.sub(0, place), half, { banned: ops.not(kept) });
    return ops.add(ops.mul(best, fine), ops.mul(ops.not(best), coarse));
  },
);
