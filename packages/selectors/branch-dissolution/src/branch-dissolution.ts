import { count, kernel, KvError, LOWEST, oneOf, unitSelector } from '@kv/core';
import { placeInUnit } from '@kv/core/shared';

/**
 * Branch dissolution: evicts units from the lowest score up until the budget is met; the last, partly evicted unit
 * keeps its best tokens.
 *
 * @remarks CrystalCache, eq. 30 to 33 and algorithm 1. Keeps B - 2 to B slots (`least` 3); where nothing else
 * stays, the best unit is cut to the budget, however few tokens that are. Where protected units exceed the budget only
 * the forced slots are protected. Of equal units the later one goes first. O(units^2 + n size) a row, without a
 * sequential loop.
 */
export const branchDissolution = unitSelector(
  'branchDissolution',
  {
    source: 'CrystalCache, algorithm 1',
    says: 'Units go from the lowest score up; the one at the border keeps its best tokens.',
    options: {
      least: count(3, 'tokens', 'Fewest tokens that a cut unit keeps; a unit that would keep fewer goes whole.'),
      protect: oneOf(
        ['units', 'slots'],
        'units',
        'What a forced slot protects: its whole unit, as in the paper, or itself.',
      ),
    },
  },
  ({ ops, scores, units, unitScores, budgets, forced, banned, active }, { least, protect }) => {
    if (!units || !unitScores)
      throw new KvError('branchDissolution', 'needs units, such as trunks() or sentences(), got slots only');
    const { of, count: each } = units;
    const rows = budgets.shape[0];
    const s = ops.broadcast(scores, rows); // [rows, n]
    const pinned = ops.max(ops.fill(s, 0), forced);
    const open = ops.sub(ops.fill(s, 1), banned);
    const whole = ops.mul(open, ops.take(ops.groupSlots('max', pinned, of, each), of));
    const fit = ops.atLeast(budgets, ops.sum(ops.max(pinned, whole))); // [rows, 1]
    const kept = protect === 'units' ? ops.max(pinned, ops.mul(whole, fit)) : pinned;
    const free = ops.mul(ops.not(kept), open);
    const sizes = ops.groupSlots('sum', free, of, each); // [rows, units]
    const excess = ops.max(0, ops.sub(ops.add(ops.sum(free), ops.sum(kept)), budgets));
    // a cut unit keeps as many tokens as the budget only where nothing else stays
    const fewest = ops.min(budgets, least);
    const stay = ops.kernel(allowance, { scores: ops.broadcast(unitScores, rows), sizes, excess, fewest }); // [rows, units]
    const place = ops.kernel(placeInUnit, { scores: ops.where(free, s, LOWEST), unitOf: of });
    const mask = ops.max(kept, ops.mul(free, ops.less(place, ops.take(stay, of))));
    return ops.select(mask, ops.sum(mask), { active });
  },
);

/**
 * Number of slots that each unit keeps when units go from the lowest score up, the later of equals first, until
 * `excess` slots are gone; 0 for the last of these if it would keep fewer than `fewest`.
 *
 * @remarks `scores` and `sizes` f32 `[r, units]`, `excess` and `fewest` `[r, 1]`. Every unit computes by itself what
 * went before it: O(units) each.
 */
export const allowance = kernel({
  id: 'dissolution-allowance',
  inputs: { scores: 'f32', sizes: 'f32', excess: 'f32', fewest: 'f32' },
  output: { shape: ({ scores }) => scores },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let m = scores_shape.y;
  let row = index / m;
  var left = excess[row];
  for (var u = 0u; u < m; u++) {
    let other = row * m + u;
    if (scores[other] < scores[index] || (scores[other] == scores[index] && other > index)) { left -= sizes[other]; }
  }
  let rest = sizes[index] - left;
  output[index] = select(select(0.0, rest, rest >= fewest[row]), sizes[index], left <= 0.0);
}`,
  ref({ scores, sizes, excess, fewest }, _, out) {
    const [rows = 0, m = 0] = scores.shape;
    for (let row = 0; row < rows; row++) {
      const order = Array.from({ length: m }, (_, u) => row * m + u).sort(
        (a, b) => scores.data[a] - scores.data[b] || b - a,
      );
      let left = excess.data[row];
      for (const u of order) {
        const size = sizes.data[u],
          rest = size - left;
        out[u] = left <= 0 ? size : rest >= fewest.data[row] ? rest : 0;
        left -= size;
      }
    }
  },
});
