import { selector } from '@kv/core';

/**
 * Keeps whole units from the best down, and the best tokens of the unit that no longer fits
 * (branch dissolution's two levels).
 */
export const twoLevel = selector('twoLevel', {}, ({ ops, at, scores, units, unitScores, budgets, ...masks }) => {
  const rows = budgets.shape[0],
    // units exist: this piece follows one that makes them
    each = unitScores!.shape[0] > rows ? ops.groupRows('mean', unitScores!, rows) : unitScores!,
    place = ops.take(ops.rank(each, 'row'), units!.of);
  return ops.select(ops.sub(ops.mul(place, -at.slots), ops.rank(scores, 'row')), budgets, masks);
});
