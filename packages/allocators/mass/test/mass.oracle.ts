import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Size of the smallest set, forced slots and then the highest mean weight, of which every head's share is at least 1 -
 * epsilon, a learned sink's included; at least one slot. Tries one size after the other.
 */
export function massOracle(
  heads: readonly (readonly number[])[],
  epsilon: number,
  forced: readonly number[],
  banned: readonly number[],
  sink = 0,
): number {
  const n = heads[0].length,
    mean = ndarray(new Float64Array(n), [n]);
  for (const row of heads) ops.addeq(mean, ndarray(Float64Array.from(row), [n]));
  const worth = (i: number): number => (forced.includes(i) ? Infinity : banned.includes(i) ? -Infinity : mean.get(i)),
    order = Array.from({ length: n }, (_, i) => i).sort((a, b) =>
      worth(a) === worth(b) ? a - b : worth(b) - worth(a),
    );
  const share = (row: readonly number[], set: readonly number[]): number =>
    sink + ((1 - sink) * set.reduce((s, i) => s + row[i], 0)) / row.reduce((s, x) => s + x, 0);
  for (let k = Math.max(1, forced.length); k < n; k++)
    if (heads.every((row) => share(row, order.slice(0, k)) >= 1 - epsilon)) return k;
  return n;
}
