import { HIGHEST, oneOf, selector } from '@kv/core';

/**
 * Keeps whole units, best first, while they fit the budget; units with a forced slot come first.
 *
 * @remarks ChunkKV's selection, arXiv:2502.00299, for any unit; without units it is top-k. Keeps at most the budget's
 * slots, with `drop` fewer by less than a unit. A best unit larger than the whole budget is cut to its best slots, so
 * the result is never empty. O(n log n).
 */
export const wholeUnits = selector(
  'wholeUnits',
  {
    source: 'Liu et al. 2025, arXiv:2502.00299',
    says: 'Whole units, best first, while they fit the budget.',
    options: {
      last: oneOf(
        ['drop', 'fill'],
        'drop',
        'What becomes of the first unit that no longer fits: nothing of it stays, or its best slots fill the room.',
      ),
    },
  },
  ({ ops, scores, budgets, units, unitScores, active, forced, banned }, { last }) => {
    if (!units || !unitScores) return ops.select(scores, budgets, { forced, banned, active }); // every slot its own unit
    const { of, count } = units;
    const rows = budgets.shape[0];
    const first = ops.where(forced && ops.groupSlots('max', forced, of, count), HIGHEST, unitScores);
    const place = ops.take(ops.rank(first, 'row'), of); // 0 = best unit, [rows, n]
    const taken = ops.mark(
      ops.select(ops.mul(place, -1), budgets, { forced, banned, active }),
      ops.broadcast(scores, rows),
    );
    const lacks = ops.sub(ops.sub(ops.fill(taken, 1), banned), taken);
    const whole = ops.less(ops.take(ops.groupSlots('sum', lacks, of, count), of), 0.5);
    const cut = last === 'fill' ? ops.mul(taken, ops.not(whole)) : ops.less(place, 0.5); // slots of the cut unit
    // slots of that unit may stay; those of other units that do not fit go, unless forced
    const open = ops.max(whole, last === 'fill' ? ops.take(ops.groupSlots('max', cut, of, count), of) : cut);
    const gone = ops.not(ops.max(open, forced));
    const best = ops.masked(scores, { forced: whole });
    return ops.select(best, budgets, { forced, banned: ops.max(gone, banned), active });
  },
);
