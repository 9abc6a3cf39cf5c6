import { allocatorBy, flag, shareOrCount } from '@kv/core';

/** Returns the slots of the pool out of a budget. */
const poolOf = (slots: number, budget: number): number => (slots < 1 ? Math.floor(slots * budget) : slots);

/** The note of `whole`. */
const TOO_SMALL =
  'The protected slots do not hold all that is to be kept whole: what is worth least, and among equals the latest, was dropped, and one value or name may be cut. A larger budget or share of protected slots keeps it.';

/**
 * Protected partition: of K slots, up to K_p go to the largest positive scores of `by`, the others to the main score.
 *
 * @remarks Transactional Attention, section 3.3 and Theorem 2: a span of at most K_p slots with positive scores of `by`
 * survives whatever the main scores are. Forces on selection rows `[G, n]`. Slots that are already forced (sinks,
 * recents) come from the main pool and use no protected slot; protected slots without a positive score go back to the
 * main pool. Never exceeds what the forced slots leave of the budget. Ties to the lower slot. `slots` below 1 is a share
 * of the budget, rounded down; it and `whole` are ours.
 */
export const protectedPartition = allocatorBy(
  'protectedPartition',
  {
    source: 'Basu 2026, arXiv:2604.11288, section 3.3',
    says: 'A pool inside the budget for what a second scorer finds.',
    options: {
      slots: shareOrCount(4, 'slots', 'Protected slots of each row, inside the budget.'),
      whole: flag(
        false,
        'The pool alone keeps what the second scorer finds: a note says so where it is too small for all.',
      ),
    },
    minSlots: ({ slots }, n, budget) => Math.min(n, poolOf(slots, budget)),
    forces: true,
  },
  ({ ops, by, budgets, forced, banned }, { slots, whole }) => {
    const open = ops.mul(ops.less(0, by), ops.not(ops.union(forced, banned))); // [G, n]
    const most = slots < 1 ? ops.map('floor', ops.mul(budgets, slots)) : slots,
      pool = ops.max(0, ops.min(ops.sub(budgets, ops.count(forced)), most)), // [G, 1]
      protectable = ops.count(open),
      all = ops.add(protectable, ops.count(ops.not(open)));
    return {
      forced: ops.top(by, pool, { banned: ops.not(open) }),
      ...(whole && {
        notes: [
          {
            // nothing is dropped where the budget holds every slot
            unless: ops.max(ops.sub(pool, protectable), ops.sub(ops.add(budgets, ops.count(banned)), all)),
            says: TOO_SMALL,
          },
        ],
      }),
    };
  },
);
