import { values } from '@kv/core';
import { selector } from '@kv/core/old';
import type { Piece } from '@kv/core';
import { evictionOrder, firstColumns } from './greedy.ts';

/**
 * Joint eviction: slots leave one after the other, always the one whose eviction together with all that left before
 * moves the attention
 * output least, until the budget is met.
 *
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 24, for which the paper has no experiments; the greedy rule is ours.
 * The error is exact for
 * the evicted set, not a sum of single errors as in CAOTE. Weights `[H | G | 1, n]`; under GQA the errors of the query
 * heads that share a KV head
 * are averaged, not their weights. Forced slots never leave, banned ones leave first; the higher of equals leaves, so
 * kept sets are nested and ties
 * stay with the lower slot. O((n - k) n d) a query head: for evicting a block from a full cache rather than most of a
 * long prompt.
 */
export function jointEviction(): Piece<'weights', 'kept', 'jointEviction'> {
  const piece = selector(
    'jointEviction',
    [values],
    ({ ops, at, given, values: v, budgets, active, forced, banned }) => {
      const open = ops.mul(budgets, 0),
        weights = given.shape[0] < at.selectRows ? ops.add(given, open) : given;
      const h = ops.simplex(weights); // [W, n]
      const rows = ops.mul(weights.shape[0] > at.selectRows ? ops.groupRows('max', h, at.selectRows) : h, 0); // [r, n]
      const mask = [forced, banned && ops.mul(banned, -1)].reduce((sum, m) => (m ? ops.add(sum!, m) : sum), rows)!;
      const order = ops.kernel(evictionOrder, { weights: h, outputs: ops.matmul(h, v), values: v, mask, budgets });
      return ops.select(ops.kernel(firstColumns, { x: order, like: mask }), budgets, { forced, banned, active });
    },
  );
  return { ...piece, from: ['weights'] };
}
