import { count, unit } from '@kv/core';

/**
 * Blocks of `size` slots, each scored by the mean of its slots.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to unit scores `[rows, ceil(n / size)]`.
 * O(rows n).
 */
export const __camel__ = unit(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Blocks of neighbouring slots.',
    options: { size: count(16, 'slots', 'Slots in a block.') },
  },
  ({ ops, at, scores }, { size }) => {
    const blocks = Math.ceil(at.slots / size);
    const of = ops.from(
      { data: Uint32Array.from({ length: at.slots }, (_, slot) => Math.floor(slot / size)), shape: [1, at.slots] },
      'u32',
    );
    return { units: { of, count: blocks }, scores: ops.groupSlots('mean', scores, of, blocks) };
  },
);
