import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** KVzip of one KV head: the largest weight over its query heads, 1 for sinks. */
export const kvzipOracle = (
  weights: readonly (readonly number[])[],
  positions: readonly number[],
  sinks: number,
): number[] =>
  positions.map((p, i) =>
    p < sinks
      ? 1
      : ops.sup(
          ndarray(
            Float64Array.from(weights, (row) => row[i]),
            [weights.length],
          ),
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
