import { count, kernel, layerMean, LOWEST, positions, transform } from '@kv/core';
import type { Mask, Ops, Tensor } from '@kv/core';
import { cut, size } from './chunks.ts';

/**
 * Place of each slot among those of its chunk, 0 = highest, ties to the lower slot: `x` `[r, n]`, `chunk` u32 `[r', n]`
 * with the slots of a chunk side by side.
 */
export const placeInChunk = kernel({
  id: 'place-in-chunk',
  inputs: { x: 'f32', chunk: 'u32' },
  ragged: 'x',
  output: { shape: ({ x }) => x },
  wgsl: /* wgsl */ `
fn run(index: u32) {
  let n = x_shape.y; let r = index / n; let i = index % n; let at = r * n; let from_ = r / (x_shape.x / chunk_shape.x) * n;
  output[index] = 0.0;
  if (i >= x_lengths[r]) { return; }
  let mine = chunk[from_ + i]; let own = x[index];
  var before = 0.0;
  for (var j = i; j > 0u && chunk[from_ + j - 1u] == mine; j--) { if (x[at + j - 1u] >= own) { before += 1.0; } }
  for (var j = i + 1u; j < x_lengths[r] && chunk[from_ + j] == mine; j++) { if (x[at + j] > own) { before += 1.0; } }
  output[index] = before;
}`,
  ref({ x, chunk }, _, out, lengths) {
    const [rows = 0, n = 0] = x.shape,
      group = rows / chunk.shape[0];
    for (let r = 0; r < rows; r++)
      for (let i = 0, at = r * n, from = Math.floor(r / group) * n; i < lengths[r]; i++) {
        let before = 0;
        for (let j = i - 1; j >= 0 && chunk.data[from + j] === chunk.data[from + i]; j--)
          before += Number(x.data[at + j] >= x.data[at + i]);
        for (let j = i + 1; j < lengths[r] && chunk.data[from + j] === chunk.data[from + i]; j++)
          before += Number(x.data[at + j] > x.data[at + i]);
        out[at + i] = before;
      }
  },
});

/** kvpress adds it to sums and inside the logarithm. */
const EPSILON = 1e-8;
/** Below any score, and finite when summed. */
const LEAST = -1e30;

/**
 * Chunks gated by entropy: slots in the order in which whole chunks go in, best first; but of a chunk that is at least
 * the median chunk and has less than the median entropy only its `low` best slots, the others behind all. With `topK()`:
 * coherent chunks stay whole, spiky ones leave room for more chunks, and the budget is met exactly.
 *
 * @remarks kvpress' EntropyGatedChunkKVPress, over ChunkKV (Liu et al. 2025, arXiv:2502.00299). One order for the
 * layer, from the sum over its KV heads; forced slots count as the layer's largest score + 1. A chunk is cut by
 * position; its entropy is that of its scores as shares, over the logarithm of its length. Scores are minus places, on
 * KV rows `[G, n]`. O(G n (size + log n)).
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
  (ctx, { size: each, low }) => {
    const { ops, at, scores, forced, positions: p } = ctx;
    const { of, count: chunks } = cut(ctx, p, each);
    const G = at.kvHeads;
    const onHeads = (kind: 'mean' | 'max', x: Tensor): Tensor => (x.shape[0] > G ? ops.groupRows(kind, x, G) : x);
    const over = (kind: 'sum' | 'mean' | 'max', x: Tensor): Tensor => ops.groupSlots(kind, x, of, chunks);
    const best = bestWhere(ops, onHeads('mean', scores), forced && onHeads('max', forced));
    const s = ops.broadcast(ops.mul(layerMean(ctx, best), G), G); // [G, n]
    const members = over('sum', ops.fill(s, 1)); // [G, chunks]
    const mean = over('mean', s);
    const lowest = ops.min(0, ops.mul(over('max', ops.mul(s, -1)), -1));
    const q = ops.sub(s, ops.take(lowest, of));
    const share = ops.div(q, ops.take(ops.add(over('sum', q), EPSILON), of));
    const surprise = over('sum', ops.mul(share, ops.log(ops.add(share, EPSILON))));
    const entropy = ops.div(surprise, ops.mul(ops.log(ops.max(2, members)), -1)); // 0 of one slot
    const some = ops.less(0, members);
    const spiky = ops.min(1, ops.max(0, entropy));
    const gated = ops.mul(ops.atLeast(mean, median(ops, mean, some)), ops.less(spiky, median(ops, spiky, some)));
    const place = ops.kernel(placeInChunk, { x: s, chunk: of });
    const late = ops.mul(ops.take(gated, of), ops.atLeast(place, low));
    const turn = ops.take(ops.rank(ops.where(some, mean, LOWEST), 'row'), of);
    const inOrder = ops.add(ops.mul(turn, each), place); // whole numbers that f32 holds
    return ops.mul(ops.where(late, ops.add(ops.rank(s, 'row'), at.slots + chunks * each), inOrder), -1);
  },
);

/** Scores, those of forced slots the largest of the others + 1. */
function bestWhere(ops: Ops, scores: Tensor, forced: Mask): Tensor {
  if (forced === 0) return scores;
  const top = ops.reduce('max', ops.reduce('max', ops.where(forced, LEAST, scores), 'slots'), 'rows');
  return ops.where(forced, ops.add(top, 1), scores);
}
/** The median of each row where `some` is 1, the lower of two: `[r, count]` to `[r, 1]`. */
function median(ops: Ops, x: Tensor, some: Tensor): Tensor {
  const last = ops.sub(ops.sum(some), 1);
  const place = ops.sub(last, ops.map('floor', ops.div(last, 2)));
  const open = ops.where(some, x, LOWEST);
  return ops.reduce('max', ops.where(ops.zip('equal', ops.rank(open, 'row'), place), x, LOWEST), 'slots');
}
