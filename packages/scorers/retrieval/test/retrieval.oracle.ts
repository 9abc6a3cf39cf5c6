import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

export type Vector = NdArray<Float64Array>;
/** Quest's bound of every slot from its page's channel-wise minimum and maximum. */
export function boundsOracle(q: Vector, keys: readonly Vector[], page: number): number[] {
  return keys.map((_, i) => {
    const own = keys.slice(i - (i % page), i - (i % page) + page);
    return Array.from({ length: q.shape[0] }, (_, c) => {
      const column = ndarray(
        Float64Array.from(own, (k) => k.get(c)),
        [own.length],
      );
      return Math.max(q.get(c) * ops.inf(column), q.get(c) * ops.sup(column));
    }).reduce((a, b) => a + b, 0);
  });
}
/** Label scores of the newest query over the channels of the largest mean |q| mean |k|, ties to the lower channel. */
export function labelsOracle(queries: readonly Vector[], keys: readonly Vector[], channels: number): number[] {
  const d = keys[0].shape[0],
    mean = (x: readonly Vector[], c: number): number => x.reduce((a, v) => a + Math.abs(v.get(c)), 0) / x.length;
  const heavy = Array.from({ length: d }, (_, c) => ({ c, s: mean(queries, c) * mean(keys, c) }))
    .sort((a, b) => b.s - a.s || a.c - b.c)
    .slice(0, channels);
  return keys.map(
    (k) => heavy.reduce((a, { c }) => a + queries.at(-1)!.get(c) * k.get(c), 0) / Math.sqrt(heavy.length),
  );
}
