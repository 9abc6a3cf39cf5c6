import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** Score of every chunk: over KV heads the sum of the mean score of the head's slots in it; scores and positions by head, over its slots. Empty chunks of a head add 0. */
export function chunksOracle(scores: readonly (readonly number[])[], positions: readonly (readonly number[])[], size: number, length: number): number[] {
  return Array.from({ length: Math.ceil(length / size) }, (_, u) => scores.reduce((total, row, g) => {
    const own = row.filter((_, i) => positions[g]![i]! >= u * size && positions[g]![i]! < (u + 1) * size);
    return total + (own.length === 0 ? 0 : ops.sum(ndarray(Float64Array.from(own), [own.length])) / own.length);
  }, 0));
}
