import { checkWord, LOWEST } from '@kv/core';
import { selector } from '@kv/core/old';
import type { Selector } from '@kv/core';

export interface WholeUnitsOptions {
  /**
   * What becomes of the first unit that no longer fits, and of the room for it: nothing of it stays, or its best slots
   * fill the room. @defaultValue 'drop'
   */
  readonly last?: 'drop' | 'fill';
}

/**
 * Whole units, best first, while they fit the budget; units with a forced slot come first.
 *
 * @remarks ChunkKV's selection, arXiv:2502.00299, for any unit; without one it is top-k. Kept are at most the budget's
 * slots and, with `drop`, fewer by less
 * than a unit; a best unit that is larger than the whole budget is cut to its best slots, so nothing is ever left
 * empty. O(n log n).
 * @throws KvError if `last` is another word.
 */
export function wholeUnits({ last = 'drop' }: WholeUnitsOptions = {}): Selector<'wholeUnits'> {
  checkWord('wholeUnits', 'last', last, ['drop', 'fill']);
  return selector(
    { name: 'wholeUnits', options: { last: last === 'drop' ? undefined : last } },
    [],
    ({ ops, scores, budgets, units, unitScores, active, forced, banned }) => {
      // every slot its own unit
      if (!units || !unitScores) return ops.select(scores, budgets, { forced, banned, active });
      const { of, count } = units,
        rows = budgets.shape[0],
        onRows = unitScores.shape[0] > rows ? ops.groupRows('mean', unitScores, rows) : unitScores;
      const first = forced ? ops.where(ops.groupSlots('max', forced, of, count), -LOWEST, onRows) : onRows;
      const place = ops.take(ops.rank(first, 'row'), of); // 0 = best unit, [rows, n]
      const taken = ops.mark(
        ops.select(ops.mul(place, -1), budgets, { forced, banned, active }),
        ops.add(scores, ops.mul(budgets, 0)),
      );
      const missing = ops.take(
        ops.groupSlots('sum', ops.sub(banned ? ops.sub(1, banned) : ops.fill(taken, 1), taken), of, count),
        of,
      );
      const whole = ops.less(missing, 0.5);
      const cut = last === 'fill' ? ops.mul(taken, ops.sub(1, whole)) : ops.less(place, 0.5);
      // of the unit that is cut any slot may stay; what else is not whole goes, unless it is forced
      const open = ops.max(whole, last === 'fill' ? ops.take(ops.groupSlots('max', cut, of, count), of) : cut);
      const best = ops.where(whole, -LOWEST, scores);
      const gone = ops.sub(1, forced ? ops.max(open, forced) : open);
      return ops.select(best, budgets, { forced, banned: banned ? ops.max(banned, gone) : gone, active });
    },
  );
}
