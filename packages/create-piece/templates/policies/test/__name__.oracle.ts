/** Positions of the `budget` longest values in ascending order, ties to the lower one; `lengths` by position. */
export function oracle(lengths: readonly number[], budget: number): readonly number[] {
  return lengths
    .map((length, position) => ({ length, position }))
    .sort((a, b) => b.length - a.length || a.position - b.position)
    .slice(0, budget)
    .map(({ position }) => position)
    .sort((a, b) => a - b);
}
