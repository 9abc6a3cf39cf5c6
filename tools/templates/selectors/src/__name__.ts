import { selector } from '@kv/core/old';
import type { Selector } from '@kv/core';

/**
 * The forced slots, then the highest scores, ties to the lower slot, never a banned one.
 *
 * @remarks Source: authors, year, identifier, equation. Scores `[rows, n]` to kept slots, ascending in each row. O(rows
 * n log n).
 */
export const __camel__ = (): Selector<'__camel__'> =>
  selector('__camel__', [], ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
