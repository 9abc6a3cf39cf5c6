import { transform } from '@kv/core/old';
import type { Transform } from '@kv/core';

/**
 * Centring: `s_t - mean(s)` in each row, which changes no order within it.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to scores of the same rows. O(rows n).
 */
export const __camel__ = (): Transform<'__camel__'> =>
  transform({ name: '__camel__', monotone: true }, [], ({ ops, scores }) =>
    ops.sub(scores, ops.reduce('mean', scores, 'slots')),
  );
