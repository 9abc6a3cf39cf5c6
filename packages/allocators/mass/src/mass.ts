import { checkNumber, LOWEST } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { Kernel, Piece } from '@kv/core';

export interface MassOptions {
  /** Share of the weights that every query head may lose. @defaultValue 0.05 */
  readonly epsilon?: number;
}

/**
 * The smallest budget of every KV head whose dropped mass is at most ε in each of its query heads: a guarantee in the
 * place of a size.
 *
 * @remarks Beyond PrHS, whose certificates bound what a given budget drops: δ = 1 - Σ over the kept of the weights,
 * exactly the total variation to the full softmax (Lemma 1). Counts the set that top-k
 * takes, forced slots first, banned ones never. It replaces the budgets that were asked for, if any were, and certifies
 * the weights it is given: one query's (TOVA), a window's mean (SnapKV), all queries' (H2O).
 * Weights `[H | G | 1, n]` to budgets `[G, 1]`. O(n log n) a query head.
 * @throws KvError if `epsilon` is outside [0, 1).
 */
export function mass({ epsilon = 0.05 }: MassOptions = {}): Piece<'weights', 'same', 'mass'> {
  checkNumber('mass', 'epsilon', epsilon, 'a number of at least 0 and below 1', (x) => x >= 0 && x < 1);
  const piece = scoreAllocator(
    { name: 'mass', options: { epsilon }, sizes: true },
    [],
    ({ ops, at, scores, budgets, forced, banned }) => {
      const onRows = (kind: 'mean' | 'max', x: typeof scores): typeof scores =>
        ops.add(x.shape[0] > at.kvHeads ? ops.groupRows(kind, x, at.kvHeads) : x, ops.mul(budgets, 0));
      const s = onRows('mean', scores),
        free = banned ? ops.where(onRows('max', banned), LOWEST, s) : s;
      const place = ops.rank(forced ? ops.where(onRows('max', forced), -LOWEST, free) : free, 'row'); // [G, n]
      const fewest = ops.kernel(
        prefix,
        { weights: ops.simplex(scores.shape[0] < at.kvHeads ? s : scores), place },
        { share: 1 - epsilon },
      );
      return { budgets: forced ? ops.max(fewest, ops.reduce('sum', onRows('max', forced), 'slots')) : fewest };
    },
  );
  return { ...piece, from: ['weights'] };
}

/**
 * The fewest slots by `place` that hold `share` of the weights in each query head of a group; all slots where none do.
 *
 * @remarks Simplex `weights` f32 `[H, n]`, `place` f32 `[G, n]`, ranks from 0. Output f32 `[G, 1]`. A search by halves:
 * O(n log n) a row.
 */
export const prefix: Kernel = {
  id: 'mass-prefix',
  inputs: { weights: 'f32', place: 'f32' },
  params: { share: 'f32' },
  ragged: 'place',
  per: 'row',
  output: { dtype: 'f32', shape: ({ place }) => [place[0], 1] },
  wgsl: /* wgsl */ `
fn run(g: u32) {
  let n = place_shape.y;
  let group = weights_shape.x / place_shape.x;
  var low = 0u;
  var high = place_lengths[g];
  while (low < high) {
    let k = (low + high) / 2u;
    var least = 2.0;
    for (var r = 0u; r < group; r++) {
      var held = 0.0;
      for (var i = 0u; i < place_lengths[g]; i++) { if (place[g * n + i] < f32(k)) { held += weights[(g * group + r) * n + i]; } }
      least = min(least, held);
    }
    if (least >= params.share) { high = k; } else { low = k + 1u; }
  }
  output[g] = f32(low);
}`,
  ref({ weights, place }, { share = 1 }, out, lengths) {
    const [rows = 0, n = 0] = place.shape,
      group = weights.shape[0] / Math.max(1, rows);
    for (let g = 0; g < rows; g++) {
      const order = Array.from({ length: lengths[g] }, (_, i) => i).sort(
          (a, b) => place.data[g * n + a] - place.data[g * n + b],
        ),
        held = new Float64Array(group);
      let k = 0;
      while (k < order.length && held.some((x) => x < Math.fround(share))) {
        for (let r = 0; r < group; r++) held[r] += weights.data[(g * group + r) * n + order[k]];
        k++;
      }
      out[g] = k;
    }
  },
};
