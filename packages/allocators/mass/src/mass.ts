import { kernel, number, weightAllocator } from '@kv/core';
import { shares } from '@kv/core/shared';

/**
 * The smallest budget of every row whose dropped mass is at most ε in each of its query heads: a guarantee instead of a
 * size.
 *
 * @remarks Beyond PrHS, whose certificates bound what a given budget drops: δ = 1 - Σ over the kept of the weights,
 * exactly the total variation to the full softmax (Lemma 1). Counts the set that top-k takes, forced slots first,
 * banned ones never. Replaces any requested budgets. Certifies the weights that come in: one query's (TOVA), a window's
 * mean (SnapKV), all queries' (H2O). Weights `[H | G | 1, n]` to budgets `[G, 1]`. O(n log n) a query head.
 */
export const mass = weightAllocator(
  'mass',
  {
    source: 'PrHS, Lemma 1',
    says: 'The smallest budgets with certified dropped mass.',
    choosesBudget: true,
    options: { epsilon: number(0.05, 'Share of the weights that every query head may lose.', { least: 0, below: 1 }) },
  },
  (ctx, { epsilon }) => {
    const { ops, at, scores, rawScores, ...masks } = ctx;
    const place = ops.rank(ops.masked(scores, masks), 'row'), // [G, n]
      weights = shares(ctx, rawScores),
      sum = ops.reduce('sum', weights, 'slots'),
      sink = at.learnedSinks ? ops.max(ops.sub(1, sum), 0) : ops.fill(sum, 0); // [H, 1]
    const fewest = ops.kernel(prefix, { weights, sink, place }, { share: 1 - epsilon });
    return { budgets: ops.max(fewest, ops.count(masks.forced)) };
  },
);

/**
 * Fewest slots by `place`, at least one, that hold `share` of the weights in each query head of a group, together with what
 * its sink holds; all slots where no number does.
 *
 * @remarks `weights` f32 `[H, n]` that sum to 1 together with `sink` `[H, 1]`, `place` f32 `[G, n]`, ranks from 0. Output f32 `[G, 1]`. Binary search:
 * O(n log n) a row.
 */
export const prefix = kernel({
  id: 'mass-prefix',
  inputs: { weights: 'f32', sink: 'f32', place: 'f32' },
  params: { share: 'f32' },
  ragged: 'place',
  per: 'row',
  output: { shape: ({ place }) => [place[0], 1] },
  wgsl: /* wgsl */ `
fn run(g: u32) {
  let n = place_shape.y;
  let group = weights_shape.x / place_shape.x;
  var high = place_lengths[g];
  var low = min(1u, high);
  while (low < high) {
    let k = (low + high) / 2u;
    var least = 2.0;
    for (var r = 0u; r < group; r++) {
      var held = sink[g * group + r];
      for (var i = 0u; i < place_lengths[g]; i++) { if (place[g * n + i] < f32(k)) { held += weights[(g * group + r) * n + i]; } }
      least = min(least, held);
    }
    if (least >= params.share) { high = k; } else { low = k + 1u; }
  }
  output[g] = f32(low);
}`,
  ref({ weights, sink, place }, { share }, out, lengths) {
    const [rows = 0, n = 0] = place.shape,
      group = weights.shape[0] / Math.max(1, rows);
    for (let g = 0; g < rows; g++) {
      const order = Array.from({ length: lengths[g] }, (_, i) => i).sort(
          (a, b) => place.data[g * n + a] - place.data[g * n + b],
        ),
        held = Float64Array.from(sink.data.subarray(g * group, (g + 1) * group));
      let k = 0;
      while (k < order.length && (k === 0 || held.some((x) => x < Math.fround(share)))) {
        for (let r = 0; r < group; r++) held[r] += weights.data[(g * group + r) * n + order[k]];
        k++;
      }
      out[g] = k;
    }
  },
});
