import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Slots of a KV head that stay: forced, among the last positions, or open and at least the threshold by the mean of the
 * head's query rows.
 */
export function thresholdOracle(
  rows: readonly (readonly number[])[],
  positions: readonly number[],
  bar: number,
  from: number,
  forced: readonly number[],
  banned: readonly number[],
): number[] {
  const n = positions.length,
    mean = ndarray(new Float64Array(n), [n]);
  for (const row of rows) ops.addeq(mean, ndarray(Float64Array.from(row), [n]));
  ops.mulseq(mean, 1 / rows.length);
  return positions.flatMap((p, i) =>
    forced.includes(i) || p >= from || (mean.get(i) >= bar && !banned.includes(i)) ? [i] : [],
  );
}
/**
 * Whether a layer is lazy: the mean over its query heads of the weights on the first positions and on the recent ones
 * before the last queries.
 */
export function lazyOracle(
  attention: readonly (readonly number[])[],
  positions: readonly number[],
  length: number,
  {
    threshold,
    sinks,
    recent,
    last,
  }: { readonly threshold: number; readonly sinks: number; readonly recent: number; readonly last: number },
): boolean {
  const seen = attention.map((row) =>
    row.reduce(
      (sum, a, i) =>
        sum +
        (positions[i] < sinks || (positions[i] >= length - last - recent && positions[i] < length - last) ? a : 0),
      0,
    ),
  );
  return threshold < 1 && seen.reduce((a, b) => a + b, 0) / seen.length > threshold;
}
