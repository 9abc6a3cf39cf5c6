import { allocatorBy, whole } from '@kv/core';

/**
 * Protected partition: of K slots, up to K_p go to the largest positive scores of `by`, the others to the main score.
 *
 * @remarks Transactional Attention, section 3.3 and Theorem 2: a span of at most K_p slots with positive scores of `by`
 * survives whatever the main scores are. Forces on selection rows `[G, n]`. Slots that are already forced (sinks,
 * recents) come from the main pool and use no protected slot; protected slots without a positive score go back to the
 * main pool. Never exceeds what the forced slots leave of the budget. Ties to the lower slot.
 */
export const protectedPartition = allocatorBy(
  'protectedPartition',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 3.3',
    says: 'A pool inside the budget for what a second scorer finds.',
    options: { slots: whole(4, 'slots', 'Protected slots of each row, inside the budget.') },
    minSlots: ({ slots }, n) => Math.min(n, slots),
    forces: true,
  },
  ({ ops, by, budgets, forced, banned }, { slots }) => {
    const open = ops.mul(ops.less(0, by), ops.not(ops.union(forced, banned))); // [G, n]
    const pool = ops.max(0, ops.min(ops.sub(budgets, ops.count(forced)), slots)); // [G, 1]
    return { forced: ops.top(by, pool, { banned: ops.not(open) }) };
  },
);
