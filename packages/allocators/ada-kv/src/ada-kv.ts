import { scoreAllocator, share } from '@kv/core';

/**
 * Ada-KV: gives a layer's slots to the best scores of all its heads, after ⌊safeguard · B⌋ of each head's own best, at
 * least one if there is a safeguard. B is the larger of the head's budget and the layer's mean; the guaranteed slots
 * never exceed the head's budget.
 *
 * @remarks Feng et al. 2024, arXiv:2407.11550, with kvpress' safeguard, which keeps the layer's sum exact. Budgets
 * `[G, 1]` with the sum of the incoming ones; forced slots count first. Scores of different heads are compared as they
 * are. One rank, O(G n log² n).
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
    // a head left short by an earlier event gets its safeguard from the mean, not from its own small budget
    const fair = ops.max(budgets, ops.reduce('mean', budgets, 'rows'));
    const share = ops.map('floor', ops.mul(fair, safeguard)); // [G, 1]
    const least = ops.min(budgets, safeguard > 0 ? ops.max(1, share) : share);
    const place = ops.rank(ops.masked(s, { forced: ops.top(s, least, { forced }) }), 'all'); // over the layer
    return { budgets: ops.count(ops.less(place, ops.reduce('sum', budgets, 'rows'))) };
  },
);
