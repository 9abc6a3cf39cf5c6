/** Levels from the finest to the coarsest. */
const CHAIN = ['f32', 'f16', 'q8', 'k8v4', 'q4'];

/**
 * Levels of the kept slots of one head: in the order of their scores, forced slots first, the lower slot of equals
 * first, a share of them is stored at each level, the best at the finest; where a share of the slots is no whole number
 * the coarser level takes the rest.
 */
export function levelsOracle(
  scores: readonly number[],
  kept: readonly number[],
  forced: readonly number[],
  percent: Readonly<Record<string, number>>,
): string[] {
  const left = [...kept],
    levelOf = new Map<number, string>();
  let taken = 0,
    share = 0;
  for (const level of CHAIN) {
    share += percent[level] ?? 0;
    for (; left.length > 0 && (taken + 1) * 100 <= share * kept.length; taken++) {
      const pool = left.some((i) => forced.includes(i)) ? left.filter((i) => forced.includes(i)) : left,
        best = pool.reduce((a, b) => (scores[b] > scores[a] || (scores[b] === scores[a] && b < a) ? b : a));
      left.splice(left.indexOf(best), 1);
      levelOf.set(best, level);
    }
  }
  return kept.map((i) => levelOf.get(i)!);
}
