import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Array1 = NdArray<Float64Array>;

/** Attention output of the slots that stay, their weights scaled up to sum to 1. */
function output(weights: readonly number[], values: readonly (readonly number[])[], kept: readonly number[]): Array1 {
  const d = values[0].length,
    total = kept.reduce((sum, i) => sum + weights[i], 0),
    out = ndarray(new Float64Array(d), [d]),
    part = ndarray(new Float64Array(d), [d]);
  for (const i of kept) {
    ops.muls(part, ndarray(Float64Array.from(values[i]), [d]), weights[i] / total);
    ops.addeq(out, part);
  }
  return out;
}

/** Brute force: the distance between the outputs before and after the slots that are not in `kept` are gone. */
export function movedOutput(
  weights: readonly number[],
  values: readonly (readonly number[])[],
  kept: readonly number[],
): number {
  const before = output(
      weights,
      values,
      weights.map((_, i) => i),
    ),
    after = output(weights, values, kept),
    difference = ndarray(new Float64Array(before.shape[0]), before.shape);
  ops.sub(difference, before, after);
  return ops.norm2(difference);
}

/**
 * Greedy by brute force: every set is judged by the outputs it leaves, a mean over the heads of the group. Kept slots,
 * ascending.
 */
export function greedyOracle(
  heads: readonly (readonly number[])[],
  values: readonly (readonly number[])[],
  budget: number,
  forced: readonly number[] = [],
  banned: readonly number[] = [],
): number[] {
  let kept = values.map((_, i) => i).filter((i) => !banned.includes(i));
  const cost = (set: readonly number[]): number =>
    heads.reduce((sum, weights) => sum + movedOutput(weights, values, set), 0);
  while (kept.length > budget) {
    const without = kept.filter((i) => !forced.includes(i)).map((i) => kept.filter((j) => j !== i));
    if (without.length === 0) break;
    kept = without.reduce((best, set) => (cost(set) <= cost(best) ? set : best));
  }
  return kept;
}

/** The best set of `budget` slots there is. */
export function bestSet(weights: readonly number[], values: readonly (readonly number[])[], budget: number): number[] {
  const sets = (from: number, size: number): number[][] =>
    size === 0
      ? [[]]
      : Array.from({ length: values.length - from }, (_, i) => from + i).flatMap((i) =>
          sets(i + 1, size - 1).map((rest) => [i, ...rest]),
        );
  return sets(0, budget).reduce((best, set) =>
    movedOutput(weights, values, set) < movedOutput(weights, values, best) ? set : best,
  );
}
