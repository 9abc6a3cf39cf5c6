import { selector } from '@kv/core';

/**
 * The forced slots, then the highest scores, ties to the lower slot, never a banned one.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to kept slots, ascending in each row. O(rows
 * n log n).
 */
export const __camel__ = selector(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'The highest scores, ties to the lower slot.',
  },
  ({ ops, scores, budgets, active, forced, banned }) => ops.select(scores, budgets, { forced, banned, active }),
);
