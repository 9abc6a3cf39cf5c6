import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Which slots stay: forced ones, then the `slots` largest positive entries of `by` that are open, then the highest
 * `scores`; the first of equals.
 */
export function partitionOracle(
  scores: readonly number[],
  by: readonly number[],
  budget: number,
  slots: number,
  forced: readonly number[],
): number[] {
  const kept = new Set(forced),
    size = scores.length;
  const fill = (row: readonly number[], until: number, above: number): void => {
    const left = ndarray(Float64Array.from(row), [size]);
    for (const slot of kept) left.set(slot, -Infinity);
    while (kept.size < until && ops.sup(left) > above) {
      const best = left.data.indexOf(ops.sup(left));
      kept.add(best);
      left.set(best, -Infinity);
    }
  };
  fill(by, Math.min(budget, forced.length + slots), 0);
  fill(scores, budget, -Infinity);
  return [...kept].sort((a, b) => a - b);
}
