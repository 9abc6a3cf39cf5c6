import { values, weightSelector } from '@kv/core';
import { shares } from '@kv/core/shared';
import { evictionOrder, firstColumns } from './greedy.ts';

/**
 * Joint eviction: evicts slots one after the other, always the one whose eviction together with all earlier ones moves
 * the attention output least, until the budget is met.
 *
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 24, for which the paper has no experiments; the greedy rule is ours.
 * The error is exact for the evicted set, not a sum of single errors as in CAOTE. Weights `[H | G | 1, n]`; under GQA
 * the errors of the query heads that share a KV head are averaged, not their weights. Forced slots are never evicted,
 * banned ones first; of equals the higher slot is evicted, so kept sets are nested and ties stay with the lower slot.
 * O((n - k) n d) a query head: meant for evicting a block from a full cache rather than most of a long prompt.
 */
export const jointEviction = weightSelector(
  'jointEviction',
  {
    source: 'Goel et al. 2025, arXiv:2504.14051, eq. 24',
    says: 'Evicts one slot after the other by the exact joint error of all that are gone.',
    needs: [values],
  },
  (ctx) => {
    const { ops, scores, rawScores, values: v, budgets, active, forced, banned } = ctx;
    const rows = budgets.shape[0];
    const h = shares(ctx, rawScores.shape[0] < rows ? ops.broadcast(rawScores, rows) : rawScores); // [W, n]
    const none = ops.fill(ops.broadcast(scores, rows), 0); // [rows, n]
    const mask = ops.sub(ops.add(none, forced), banned);
    const order = ops.kernel(evictionOrder, { weights: h, outputs: ops.matmul(h, v), values: v, mask, budgets });
    return ops.select(ops.kernel(firstColumns, { x: order, like: mask }), budgets, { forced, banned, active });
  },
);
