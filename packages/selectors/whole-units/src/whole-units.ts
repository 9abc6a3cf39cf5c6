import { HIGHEST, LOWEST, oneOf, selector } from '@kv/core';
import { loopBytes } from './whole-units-loop.ts';

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
    loop: ({ last }) => ({ bytes: loopBytes, words: [Number(last === 'fill')] }),
  },
  ({ ops, scores, budgets, units, unitScores, active, forced, banned }, { last }) => {
    if (!units || !unitScores) return ops.select(scores, budgets, { forced, banned, active }); // every slot its own unit
    const { of, count } = units;
    const rows = budgets.shape[0];
    // a unit of which nothing may stay comes last: its slots were evicted, or are banned
    const open = ops.groupSlots('max', banned === 0 ? ops.fill(scores, 1) : ops.not(banned), of, count);
    const first = ops.where(forced && ops.groupSlots('max', forced, of, count), HIGHEST, unitScores);
    const place = ops.rank(ops.where(open, first, LOWEST), 'row'); // 0 = best unit, [rows, count]
    const taken = ops.mark(
      ops.select(ops.take(ops.mul(place, -1), of), budgets, { forced, banned, active }),
      ops.broadcast(scores, rows),
    );
    const lacks = banned === 0 ? ops.not(taken) : ops.sub(ops.not(taken), banned);
    const whole = ops.less(ops.groupSlots('sum', lacks, of, count), 0.5);
    const cut = // the cut unit
      last === 'fill' ? ops.mul(ops.groupSlots('max', taken, of, count), ops.not(whole)) : ops.less(place, 0.5);
    // slots of that unit may stay; those of other units that do not fit go, unless forced
    const others = ops.take(ops.not(ops.max(whole, cut)), of),
      gone = forced === 0 ? others : ops.mul(others, ops.not(forced));
    const best = ops.masked(scores, { forced: ops.take(whole, of) });
    return ops.select(best, budgets, { forced, banned: banned === 0 ? gone : ops.max(gone, banned), active });
  },
);
