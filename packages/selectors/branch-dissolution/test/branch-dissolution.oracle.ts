/**
 * Algorithm 1: kept tokens, ascending. Beyond it, a unit that alone would stay keeps as many tokens as the budget has.
 * `scores` one a trunk, `impact` one a token.
 */
export function dissolutionOracle(
  trunks: readonly (readonly number[])[],
  scores: readonly number[],
  impact: readonly number[],
  budget: number,
  forced: readonly number[],
  least = 3,
): number[] {
  const touched = trunks.map((g) => g.some((i) => forced.includes(i))),
    held = trunks.filter((_, u) => touched[u]).flat().length;
  const fewest = Math.min(least, budget),
    whole = held <= budget,
    kept = new Set(whole ? trunks.filter((_, u) => touched[u]).flat() : forced);
  const alive = trunks.map((g, u) => ({ g: g.filter((i) => !kept.has(i)), u })).filter(({ g }) => g.length > 0);
  let c = Math.max(0, alive.flatMap(({ g }) => g).length - (budget - kept.size));
  for (const { g } of alive.sort((a, b) => scores[a.u] - scores[b.u] || b.u - a.u)) {
    const rest = g.length - c;
    if (c <= 0) g.forEach((i) => kept.add(i));
    else if (rest >= fewest)
      [...g]
        .sort((a, b) => impact[b] - impact[a] || a - b)
        .slice(0, rest)
        .forEach((i) => kept.add(i));
    c = c <= 0 ? c : rest >= fewest ? 0 : c - g.length;
  }
  return [...kept].sort((a, b) => a - b);
}
