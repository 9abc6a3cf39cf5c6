import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** One row of numbers, `[n]`. */
export type Row = NdArray<Float64Array>;
const zeros = (n: number): Row => ndarray(new Float64Array(n), [n]);

/**
 * SnapKV of one query head: the slots before the window pooled over `kernel` slots with zeros beyond both ends, the
 * window as it is.
 */
export function snapkvOracle(
  attention: Row,
  { window, kernel, pooling }: { readonly window: number; readonly kernel: number; readonly pooling: 'mean' | 'max' },
): Row {
  const n = attention.shape[0],
    end = Math.max(0, n - window),
    half = (kernel - 1) / 2;
  const padded = zeros(end + 2 * half),
    scores = zeros(n);
  if (end > 0) ops.assign(padded.lo(half).hi(end), attention.hi(end));
  ops.assign(scores, attention);
  for (let i = 0; i < end; i++)
    scores.set(i, pooling === 'mean' ? ops.sum(padded.lo(i).hi(kernel)) / kernel : ops.sup(padded.lo(i).hi(kernel)));
  return scores;
}

/** Observed attention of one query head: received weight over the number of queries that could see the position. */
export function observedOracle(attention: Row, positions: Row, length: number): Row {
  const seen = zeros(attention.shape[0]),
    scores = zeros(attention.shape[0]);
  ops.muls(seen, positions, -1);
  ops.addseq(seen, length);
  ops.div(scores, attention, seen);
  return scores;
}

/** Mean over the query heads of each KV head. */
export function groupMeanOracle(scores: readonly Row[], kvHeads: number): Row[] {
  const group = scores.length / kvHeads;
  return Array.from({ length: kvHeads }, (_, g) => {
    const mean = zeros(scores[g * group].shape[0]);
    for (const row of scores.slice(g * group, (g + 1) * group)) ops.addeq(mean, row);
    ops.divseq(mean, group);
    return mean;
  });
}

/**
 * TOVA of one layer: for every slot of every KV head, the mean over all query heads whose KV head holds its position.
 */
export function tovaOracle(attention: readonly Row[], positions: readonly Row[]): Row[] {
  const group = attention.length / positions.length;
  return positions.map((here) => {
    const scores = zeros(here.shape[0]);
    for (let i = 0; i < here.shape[0]; i++) {
      const received = attention.flatMap((row, h) => {
        const held = positions[Math.floor(h / group)];
        return Array.from({ length: held.shape[0] }, (_, j) => j)
          .filter((j) => held.get(j) === here.get(i))
          .map((j) => row.get(j));
      });
      scores.set(i, ops.sum(ndarray(Float64Array.from(received), [received.length])) / received.length);
    }
    return scores;
  });
}
