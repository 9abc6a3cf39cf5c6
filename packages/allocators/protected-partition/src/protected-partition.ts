import { checkNumber, isCount } from '@kv/core';
import { allocatorBy } from '@kv/core/old';
import type { Piece, ScoreAllocator } from '@kv/core';

export interface ProtectedPartitionOptions {
  /** Protected slots K_p of each row, inside the budget. @defaultValue 4 */
  readonly slots?: number;
}

/**
 * Protected partition: of K slots, up to K_p go to the largest positive scores of `by`, and the others to the main
 * score.
 *
 * @remarks Transactional Attention, section 3.3 and Theorem 2: a span of at most K_p slots with positive scores of `by`
 * survives
 * whatever the main scores are. Forces on selection rows `[G, n]`; slots that are forced already (sinks, recents) come
 * from the main pool and
 * use up no protected slot; protected slots that find no positive score go back to the main pool. Never more than the
 * budget leaves beside what
 * is forced already. Ties to the lower slot.
 * @throws KvError if `slots` is not a whole number.
 */
export function protectedPartition(
  by: Piece<'start', 'scores' | 'weights'>,
  { slots = 4 }: ProtectedPartitionOptions = {},
): ScoreAllocator<'protectedPartition'> {
  checkNumber('protectedPartition', 'slots', slots, 'a whole number of slots', isCount);
  return allocatorBy(
    { name: 'protectedPartition', options: { slots, by: by.label }, floor: (n) => Math.min(n, slots) },
    by,
    ({ ops, at, by: given, budgets, forced, banned }) => {
      const onRows = (kind: 'mean' | 'max', x: typeof given): typeof given =>
        x.shape[0] > at.selectRows ? ops.groupRows(kind, x, at.selectRows) : x;
      const scores = onRows('mean', given),
        main = forced && onRows('max', forced),
        gone = banned && onRows('max', banned);
      const positive = ops.less(0, scores);
      const open = [main, gone].reduce((mask, x) => (x ? ops.mul(mask!, ops.less(x, 1)) : mask), positive)!;
      // [G, 1]
      const pool = ops.max(0, ops.min(main ? ops.sub(budgets, ops.reduce('sum', main, 'slots')) : budgets, slots));
      return { forced: ops.mark(ops.select(scores, pool, { banned: ops.less(open, 1) }), open) };
    },
  );
}
