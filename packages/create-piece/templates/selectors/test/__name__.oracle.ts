import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** The `budget` highest of a row, one after the other: the first largest is taken and struck out. Ascending. */
export function oracle(scores: readonly number[], budget: number): number[] {
  const left = ndarray(Float64Array.from(scores), [scores.length]);
  const kept: number[] = [];
  while (kept.length < Math.min(budget, scores.length)) {
    const best = left.data.indexOf(ops.sup(left));
    kept.push(best);
    left.set(best, -Infinity);
  }
  return kept.sort((a, b) => a - b);
}
