/**
 * Ada-KV, slot by slot: forced slots, then each head's own best up to its safeguard (at least one, if there is any), then the best of all heads (ties
 * to the lower slot, then the lower head) until the layer's slots are spent. Scores `[head][slot]`.
 */
export function adaKvOracle(
  scores: readonly (readonly number[])[],
  budgets: readonly number[],
  safeguard: number,
  forced: readonly (readonly number[])[],
): number[] {
  const taken = scores.map((_, h) => new Set(forced[h]));
  const mean = budgets.reduce((a, b) => a + b, 0) / budgets.length;
  const open = (h: number): { h: number; i: number; s: number }[] =>
    scores[h].flatMap((s, i) => (taken[h].has(i) ? [] : [{ h, i, s }]));
  scores.forEach((_, h) => {
    for (const { i } of open(h).sort((a, b) => b.s - a.s || a.i - b.i))
      if (
        taken[h].size <
        Math.min(budgets[h], Math.max(Number(safeguard > 0), Math.floor(safeguard * Math.max(budgets[h], mean))))
      )
        taken[h].add(i);
  });
  let left = budgets.reduce((a, b) => a + b, 0) - taken.reduce((a, t) => a + t.size, 0);
  for (const { h, i } of scores.flatMap((_, h) => open(h)).sort((a, b) => b.s - a.s || a.i - b.i || a.h - b.h))
    if (left-- > 0) taken[h].add(i);
  return taken.map((t) => t.size);
}
