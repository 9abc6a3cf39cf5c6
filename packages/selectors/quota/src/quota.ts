import { LOWEST, placeInUnit } from '@kv/core';
import { selector } from '@kv/core/old';
import type { Selector } from '@kv/core';

/**
 * Quotas: every unit keeps its own best slots, in proportion to its size.
 *
 * @remarks kvpress' ChunkPress over `chunks`, after Finch, for any unit; without one it is top-k. The k-th best of a
 * unit of m slots is worth k / m, and the B slots worth least are kept: each unit keeps at least ⌊B m / n⌋,
 * and what that leaves of the budget goes to the units that are next. Forced slots come first in their unit, banned
 * ones are none of it. Ties to the lower slot. O(n m).
 */
export const quota = (): Selector<'quota'> =>
  selector('quota', [], ({ ops, scores, budgets, units, active, forced, banned }) => {
    if (!units) return ops.select(scores, budgets, { forced, banned, active });
    const s = ops.add(scores, ops.mul(budgets, 0)),
      free = banned ? ops.where(banned, LOWEST, s) : s;
    const place = ops.kernel(placeInUnit, {
      scores: forced ? ops.where(forced, -LOWEST, free) : free,
      unitOf: units.of,
    });
    const sizes = ops.groupSlots('sum', banned ? ops.sub(1, banned) : ops.fill(s, 1), units.of, units.count);
    return ops.select(ops.div(ops.add(place, 1), ops.mul(ops.max(1, ops.take(sizes, units.of)), -1)), budgets, {
      forced,
      banned,
      active,
    });
  });
