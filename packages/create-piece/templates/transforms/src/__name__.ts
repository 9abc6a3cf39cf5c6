import { transform } from '@kv/core';

/**
 * Centring: `s_t - mean(s)` in each row, which changes no order within it.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to scores of the same rows. O(rows n).
 */
export const __camel__ = transform(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Takes the mean of each row away.',
    monotone: true,
  },
  ({ ops, scores }) => ops.sub(scores, ops.reduce('mean', scores, 'slots')),
);
