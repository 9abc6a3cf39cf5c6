import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** A slot that left. */
export interface Left {
  readonly key: readonly number[];
  readonly value: readonly number[];
}

/** In float64, the mass and the value that the mean of slots which left adds to a query's attention. */
export function oracle(query: readonly number[], left: readonly Left[]): { mass: number; value: number[] } {
  const mean = (of: (slot: Left) => readonly number[]): number[] =>
    query.map((_, c) => ops.sum(ndarray(Float64Array.from(left, (slot) => of(slot)[c]!))) / left.length);
  const key = mean((slot) => slot.key);
  const dot = query.reduce((sum, x, c) => sum + x * key[c]!, 0);
  return { mass: Math.log(left.length) + dot / Math.sqrt(query.length), value: mean((slot) => slot.value) };
}
