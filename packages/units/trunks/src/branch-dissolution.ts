import { checkNumber, checkWord, KvError, LOWEST, placeInUnit } from '@kv/core';
import { selector } from '@kv/core/old';
import type { Kernel, Piece, Tensor } from '@kv/core';

export interface DissolutionOptions {
  /** Fewest tokens that a cut unit keeps, N_min; a unit that would keep fewer goes whole. @defaultValue 3 */
  readonly least?: number;
  /** What a forced slot protects: its whole unit, as in the paper, or itself. @defaultValue 'units' */
  readonly protect?: 'units' | 'slots';
}

/**
 * Branch dissolution: units go from the lowest score up until the budget is met; the one at the border keeps its best
 * tokens.
 *
 * @remarks CrystalCache, eq. 30 to 33 and algorithm 1. Keeps B - 2 to B slots (`least` 3). Where protected units exceed
 * the budget only the forced slots are
 * protected. Of equal units the later one goes first. O(units^2 + n size) a row, without a loop that waits for its own
 * result.
 * @throws KvError if `least` is not a positive whole number or `protect` another word; `compose` refuses it where
 * nothing cut units.
 */
export function branchDissolution({
  least = 3,
  protect = 'units',
}: DissolutionOptions = {}): Piece<'units', 'kept', 'branchDissolution'> {
  checkNumber(
    'branchDissolution',
    'least',
    least,
    'a positive whole number of tokens',
    (x) => Number.isInteger(x) && x > 0,
  );
  checkWord('branchDissolution', 'protect', protect, ['units', 'slots']);
  const piece = selector(
    { name: 'branchDissolution', options: { least, protect: protect === 'units' ? undefined : protect } },
    [],
    ({ ops, at, scores, units, unitScores, budgets, forced, banned, active }) => {
      if (!units || !unitScores)
        throw new KvError('branchDissolution', 'needs units, such as trunks() or sentences(), got slots only');
      const { of, count } = units,
        none = ops.mul(budgets, 0),
        s = ops.add(scores, none);
      const sum = (x: Tensor): Tensor => ops.reduce('sum', x, 'slots'),
        like = (mask: Tensor | undefined): Tensor => (mask ? ops.max(ops.fill(s, 0), mask) : ops.fill(s, 0));
      const pinned = like(forced),
        open = ops.sub(1, like(banned)),
        whole = ops.mul(open, ops.take(ops.groupSlots('max', pinned, of, count), of));
      const kept =
        protect === 'units'
          ? ops.max(pinned, ops.mul(whole, ops.atLeast(budgets, sum(ops.max(pinned, whole)))))
          : pinned;
      const free = ops.mul(ops.sub(1, kept), open); // [r, n]
      const sizes = ops.groupSlots('sum', free, of, count),
        excess = ops.max(0, ops.sub(ops.add(sum(free), sum(kept)), budgets));
      const worth = ops.add(
        unitScores.shape[0] > at.selectRows ? ops.groupRows('mean', unitScores, at.selectRows) : unitScores,
        none,
      );
      const stay = ops.kernel(allowance, { scores: worth, sizes, excess }, { least }); // [r, units]
      const place = ops.kernel(placeInUnit, { scores: ops.where(free, s, LOWEST), unitOf: of });
      const mask = ops.max(kept, ops.mul(free, ops.less(place, ops.take(stay, of))));
      return ops.select(mask, sum(mask), { active });
    },
  );
  return { ...piece, from: ['units'] };
}

/**
 * How many of its slots each unit keeps when units go from the lowest score up, the later of equals first, until
 * `excess` slots are gone.
 *
 * @remarks `scores` and `sizes` f32 `[r, units]`, `excess` `[r, 1]`. Every unit finds by itself what went before it:
 * O(units) each.
 */
export const allowance: Kernel = {
  id: 'dissolution-allowance',
  inputs: { scores: 'f32', sizes: 'f32', excess: 'f32' },
  params: { least: 'f32' },
  per: 'element',
  output: { dtype: 'f32', shape: ({ scores }) => scores },
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
  output[index] = select(select(0.0, rest, rest >= params.least), sizes[index], left <= 0.0);
}`,
  ref({ scores, sizes, excess }, { least = 1 }, out) {
    const [rows = 0, m = 0] = scores.shape;
    for (let row = 0; row < rows; row++) {
      const order = Array.from({ length: m }, (_, u) => row * m + u).sort(
        (a, b) => scores.data[a] - scores.data[b] || b - a,
      );
      let left = excess.data[row];
      for (const u of order) {
        const size = sizes.data[u],
          rest = size - left;
        out[u] = left <= 0 ? size : rest >= least ? rest : 0;
        left -= size;
      }
    }
  },
};
