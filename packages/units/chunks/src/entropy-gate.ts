import { count, layerMean, LOWEST, positions, transform } from '@kv/core';
import { placeInUnit } from '@kv/core/shared';
import type { Mask, Ops, Tensor } from '@kv/core';
import { cutChunks, size } from './chunks.ts';

/** kvpress' ε, added to sums and inside the logarithm. */
const EPSILON = 1e-8;
/** A score below any other, and finite when summed. */
const LEAST = -1e30;

/**
 * Chunks gated by entropy: slots in the order in which whole chunks are taken, best first; but a chunk that scores at
 * least the median chunk and has less than the median entropy gives only its `low` best slots, and its others come
 * last. With `topK()`: coherent chunks stay whole, spiky ones leave room for more chunks, and the budget is met
 * exactly.
 *
 * @remarks kvpress' EntropyGatedChunkKVPress, over ChunkKV (Liu et al. 2025, arXiv:2502.00299). One order for the
 * layer, from the sum over its KV heads; forced slots count as the layer's largest score + 1. Chunks are cut by
 * position; a chunk's entropy is that of its scores as shares, divided by the logarithm of its length. Scores are minus
 * ranks, on KV rows `[G, n]`. O(G n (size + log n)).
 */
export const entropyGate = transform(
  'entropyGate',
  {
    source: "Liu et al. 2025, arXiv:2502.00299, kvpress's gate",
    says: 'Whole chunks, best first, but of spiky ones only a few slots.',
    options: {
      size,
      low: count(4, 'slots', 'Slots that a good chunk of low entropy is cut to; `size` and more cut none.'),
    },
    needs: [positions],
  },
  (ctx, { size, low }) => {
    const { ops, at, scores, forced, positions: p } = ctx;
    const each = Math.min(size, at.length); // ranks are whole numbers, exact in f32
    const { of, count: chunks } = cutChunks(ctx, p, each);
    const G = at.kvHeads;
    const over = (kind: 'sum' | 'mean' | 'max', x: Tensor): Tensor => ops.groupSlots(kind, x, of, chunks);
    const best = bestWhere(ops, ops.reduceRows('mean', scores, G), forced && ops.reduceRows('max', forced, G));
    const s = ops.broadcast(ops.mul(layerMean(ctx, best), G), G); // [G, n]
    const members = over('sum', ops.fill(s, 1)); // [G, chunks]
    const mean = over('mean', s);
    const lowest = ops.min(0, ops.mul(over('max', ops.mul(s, -1)), -1));
    const q = ops.sub(s, ops.take(lowest, of));
    const share = ops.div(q, ops.take(ops.add(over('sum', q), EPSILON), of));
    const surprise = over('sum', ops.mul(share, ops.log(ops.add(share, EPSILON))));
    const entropy = ops.div(surprise, ops.mul(ops.log(ops.max(2, members)), -1)); // 0 for one slot
    const some = ops.less(0, members);
    const spiky = ops.min(1, ops.max(0, entropy));
    const gated = ops.mul(ops.atLeast(mean, median(ops, mean, some)), ops.less(spiky, median(ops, spiky, some)));
    const place = ops.kernel(placeInUnit, { scores: s, unitOf: of });
    const late = ops.mul(ops.take(gated, of), ops.atLeast(place, low));
    const turn = ops.take(ops.rank(ops.where(some, mean, LOWEST), 'row'), of);
    const inOrder = ops.add(ops.mul(turn, each), place);
    return ops.mul(ops.where(late, ops.add(ops.rank(s, 'row'), at.slots + chunks * each), inOrder), -1);
  },
);

/** Returns scores with those of forced slots set to the largest of the others + 1. */
function bestWhere(ops: Ops, scores: Tensor, forced: Mask): Tensor {
  if (forced === 0) return scores;
  const top = ops.reduce('max', ops.reduce('max', ops.where(forced, LEAST, scores), 'slots'), 'rows');
  return ops.where(forced, ops.add(top, 1), scores);
}
/** Returns the median of each row where `some` is 1, the lower of two: `[r, count]` to `[r, 1]`. */
function median(ops: Ops, x: Tensor, some: Tensor): Tensor {
  const last = ops.sub(ops.sum(some), 1);
  const place = ops.sub(last, ops.map('floor', ops.div(last, 2)));
  const open = ops.where(some, x, LOWEST);
  return ops.reduce('max', ops.where(ops.zip('equal', ops.rank(open, 'row'), place), x, LOWEST), 'slots');
}
