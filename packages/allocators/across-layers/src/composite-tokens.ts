import { kernel, LOWEST, scoreAllocator } from '@kv/core';
import type { Ops, StepContext, Tensor, WithRows } from '@kv/core';
import { shareOfBest } from './border.ts';

/** Scores in the order of their ranks, best first: `x` and `rank` `[r, n]` to `[r, n]`, 0 after the valid slots. */
export const byRank = kernel({
  id: 'by-rank',
  inputs: { x: 'f32', rank: 'f32' },
  ragged: 'x',
  per: 'group',
  output: { shape: ({ x }) => x },
  wgsl: /* wgsl */ `
fn run(row: u32, lane: u32) {
  let n = x_shape.y; let at = row * n;
  for (var i = lane; i < n; i += THREADS) {
    if (i < x_lengths[row]) { output[at + u32(rank[at + i])] = x[at + i]; } else { output[at + i] = 0.0; }
  }
}`,
  ref({ x, rank }, _, out, lengths) {
    const [rows = 0, n = 0] = x.shape;
    for (let r = 0; r < rows; r++)
      for (let i = 0; i < lengths[r]; i++) out[r * n + rank.data[r * n + i]] = x.data[r * n + i];
  },
});

/** Composite tokens of a layer, `[1, n]`: the k-th consists of the k-th best slot of each head that has one. */
interface Composite {
  readonly scores: Tensor;
  /** Most slots that a head forces, and most that a head can keep, `[1, 1]`. */
  readonly forced: Tensor;
  readonly usable: Tensor;
  /** 0, 1, 2, ... */
  readonly index: Tensor;
  readonly slots: number;
}

function compositeOf({ ops, at: { slots }, scores, forced, banned }: StepContext & WithRows): Composite {
  const must = ops.max(ops.fill(scores, 0), forced);
  const free = ops.sub(1, ops.mul(ops.sub(1, must), banned));
  const best = ops.kernel(byRank, { x: scores, rank: ops.rank(ops.masked(scores, { forced, banned }), 'row') });
  const most = (x: Tensor): Tensor => ops.reduce('max', ops.sum(x), 'rows');
  const index = ops.from({ data: Float32Array.from({ length: slots }, (_, i) => i), shape: [1, slots] });
  const has = ops.less(index, ops.sum(free));
  const dense = (x: Tensor): Tensor => ops.reduce('sum', ops.reshape(ops.where(has, x, 0), scores.shape), 'rows');
  return {
    scores: ops.div(dense(best), ops.max(1, dense(ops.fill(best, 1)))),
    forced: most(must),
    usable: most(free),
    index,
    slots,
  };
}

/** Returns the scores of a layer's composites for comparison with another layer's: the lowest where it has none. */
function seenFrom(ops: Ops, { index, slots }: Composite, other: Composite): Tensor {
  const place = Uint32Array.from({ length: slots }, (_, i) => Math.min(i, other.slots - 1));
  const seen = ops.take(other.scores, ops.from({ data: place, shape: [1, slots] }));
  return ops.where(ops.less(index, other.usable), seen, LOWEST);
}

/**
 * KVCompose's budgets: the k-th best slots of all KV heads of a layer are one composite token, which scores their mean.
 * Composites of all layers compete, and each head of a layer keeps as many slots as the layer has composites among the
 * best.
 *
 * @remarks Akulov et al. 2025, arXiv:2509.05165, as in kvpress' KVComposePress: a composite of the first layer scores
 * as the best of its rank in any layer, and no layer goes empty; but the sum is exact. Forced slots come first. Budgets
 * `[G, 1]`, equal in all heads of a layer. One rank a layer, O(150 L n).
 */
export const compositeTokens = scoreAllocator(
  'compositeTokens',
  {
    source: 'Akulov et al. 2025, arXiv:2509.05165',
    says: 'The k-th best slots of all heads of a layer are one token, and tokens of all layers compete.',
    acrossLayers: (layers) => {
      const [{ ops }] = layers;
      const composites = layers.map(compositeOf);
      const share = layers.map(({ budgets }) => ops.map('floor', ops.reduce('mean', budgets, 'rows')));
      const first = composites.map((other) => seenFrom(ops, composites[0], other)).reduce((a, b) => ops.max(a, b));
      const competing = composites.map(({ scores, forced, usable, index }, l) => {
        const sure = ops.max(forced, ops.min(1, ops.min(share[l], usable)));
        return {
          scores: l === 0 ? first : scores,
          sure,
          open: ops.mul(ops.atLeast(index, sure), ops.less(index, usable)),
        };
      });
      const heads = layers.map(({ budgets }) => budgets.shape[0]);
      const sumUp = (each: readonly Tensor[]): Tensor => each.reduce((a, b) => ops.add(a, b));
      if (heads.every((G) => G === heads[0])) return shareOfBest(ops, competing, sumUp(share));
      // composites of layers with more heads cost more slots: one row a head, and what all of these keep
      const rows = competing.map(({ scores, sure, open }, l) => ({
        scores: ops.broadcast(scores, heads[l]),
        sure: ops.broadcast(sure, heads[l]),
        open: ops.broadcast(open, heads[l]),
      }));
      const total = sumUp(share.map((each, l) => ops.mul(each, heads[l])));
      return shareOfBest(ops, rows, total).map((kept) => ops.reduce('min', kept, 'rows'));
    },
  },
  ({ ops, scores, budgets, acrossLayers, index }) => ({
    budgets: ops.min(ops.broadcast(acrossLayers[index], budgets.shape[0]), ops.sum(ops.fill(scores, 1))),
  }),
);
