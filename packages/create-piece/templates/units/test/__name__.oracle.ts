import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/**
 * What stays when every slot is worth the float64 mean of its block of `size`: the `budget` best, ties to the lower
 * slot, ascending.
 */
export function oracle(scores: readonly number[], size: number, budget: number): number[] {
  const row = ndarray(Float64Array.from(scores), [scores.length]);
  const worth = scores.map((_, slot) => {
    const from = slot - (slot % size),
      block = row.lo(from).hi(Math.min(size, scores.length - from));
    return ops.sum(block) / block.shape[0];
  });
  const order = scores.map((_, slot) => slot).sort((a, b) => worth[b] - worth[a] || a - b);
  return order.slice(0, budget).sort((a, b) => a - b);
}
