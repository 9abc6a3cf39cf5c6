import { scoreAllocator, share } from '@kv/core';

/**
 * Ada-KV: the slots of a layer go to the best scores of all its heads, once every head has ⌊safeguard · B⌋ of its own
 * best, at least one where there is a safeguard, B its budget or the layer's mean, whichever is more, but no more than its budget.
 *
 * @remarks Feng et al. 2024, arXiv:2407.11550, with kvpress' safeguard, which keeps the layer's sum exact. Budgets `[G,
 * 1]` of the sum that comes in; forced slots count first. Scores of different heads are compared as they are. One rank,
 * O(G n log² n).
 */
export const adaKV = scoreAllocator(
  'adaKV',
  {
    source: 'Feng et al. 2024, arXiv:2407.11550',
    says: "A layer's slots go to the best scores of all its heads.",
    options: { safeguard: share(0.2, 'Share of its budget that every head keeps for its own best slots.') },
  },
  ({ ops, scores, budgets, forced, banned }, { safeguard }) => {
    const s = ops.masked(scores, { banned }); // [G, n]
    // a head that an earlier event left short is not cut to a share of what it has
    const fair = ops.max(budgets, ops.reduce('mean', budgets, 'rows'));
    const share = ops.map('floor', ops.mul(fair, safeguard)); // [G, 1]
    const least = ops.min(budgets, safeguard > 0 ? ops.max(1, share) : share);
    const place = ops.rank(ops.masked(s, { forced: ops.top(s, least, { forced }) }), 'all'); // over the layer
    return { budgets: ops.count(ops.less(place, ops.reduce('sum', budgets, 'rows'))) };
  },
);
