import { scoreAllocator, whole } from '@kv/core';

/**
 * Budgets of at least `slots` slots a head, as far as the head holds them: max(B, n_min).
 *
 * @remarks CrystalCache, eq. 30, B = max(4 + 128, ⌈β n⌉), where `spec.md` leaves the bound out. The sum exceeds the
 * requested one where budgets are smaller.
 */
export const atLeast = scoreAllocator(
  'atLeast',
  {
    source: 'CrystalCache, eq. 30',
    says: 'Every head gets at least this number of slots.',
    options: { slots: whole(132, 'slots', 'Slots that every head has room for.') },
    approximate: true,
  },
  ({ ops, scores, budgets }, { slots }) => ({
    budgets: ops.max(budgets, ops.min(slots, ops.sum(ops.fill(scores, 1)))),
  }),
);
