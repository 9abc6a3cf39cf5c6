import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Forced slots, then the largest of the rest one after the other, the first of equals, each struck out; never a banned
 * one. Ascending.
 */
export function topKOracle(
  scores: readonly number[],
  budget: number,
  forced: readonly number[] = [],
  banned: readonly number[] = [],
): number[] {
  const left = ndarray(Float64Array.from(scores), [scores.length]),
    kept = [...forced];
  for (const slot of [...forced, ...banned]) left.set(slot, -Infinity);
  while (kept.length < budget && ops.sup(left) > -Infinity) {
    const best = left.data.indexOf(ops.sup(left));
    kept.push(best);
    left.set(best, -Infinity);
  }
  return kept.sort((a, b) => a - b);
}
