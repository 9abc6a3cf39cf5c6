/** Returns Bonferroni's p-values over a declared family: p·m, at most 1. */
export const bonferroni = (p: readonly number[]): readonly number[] => p.map((one) => Math.min(1, one * p.length));

/** Returns Holm's p-values, in the order of `p`: the running maximum of p₍ᵢ₎·(m − i), smallest first, at most 1. */
export function holm(p: readonly number[]): readonly number[] {
  const adjusted = [...p];
  let running = 0;
  for (const [i, at] of [...p.keys()].sort((a, b) => p[a] - p[b]).entries())
    adjusted[at] = running = Math.max(running, Math.min(1, p[at] * (p.length - i)));
  return adjusted;
}
