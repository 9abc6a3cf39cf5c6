import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** KVzip of one KV head: the largest weight over its query heads. */
export const kvzipOracle = (weights: readonly (readonly number[])[]): number[] =>
  weights[0].map((_, i) =>
    ops.sup(
      ndarray(
        Float64Array.from(weights, (row) => row[i]),
        [weights.length],
      ),
    ),
  );

/**
 * KVzip+ of one KV head from whole rows: weights of its query heads [head][query][slot], the length of each query's hidden
 * state, and its heads' columns of the output product [head][output][channel] with the head's values [slot][channel].
 */
export const kvzipPlusOracle = (
  weights: readonly (readonly (readonly number[])[])[],
  hidden: readonly number[],
  columns: readonly (readonly (readonly number[])[])[],
  values: readonly (readonly number[])[],
): number[] =>
  values.map((v, i) =>
    Math.max(
      ...weights.flatMap((rows, h) => {
        const added = Math.hypot(...columns[h].map((row) => row.reduce((sum, w, c) => sum + w * v[c], 0)));
        return rows.map((row, q) => (row[i] * added) / hidden[q]);
      }),
    ),
  );

/**
 * KVCompose's scores, by KV head: mean of its query heads' weights, plus the mean of that over the KV heads that hold
 * the position.
 */
export function kvcomposeOracle(
  weights: readonly (readonly number[])[],
  positions: readonly (readonly number[])[],
): number[][] {
  const group = weights.length / positions.length,
    mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
  const own = positions.map((placed, g) =>
    placed.map((_, i) => mean(weights.slice(g * group, (g + 1) * group).map((row) => row[i]))),
  );
  return own.map((row, g) =>
    row.map(
      (x, i) =>
        x +
        mean(
          positions.flatMap((placed, other) => {
            const at = placed.indexOf(positions[g][i]);
            return at < 0 ? [] : [own[other][at]];
          }),
        ),
    ),
  );
}
