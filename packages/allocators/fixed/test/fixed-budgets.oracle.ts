/** Real-valued slots of each entry, and their whole parts, in exact integers: weights of `total`. */
export function portions(
  weights: readonly number[],
  total: number,
): readonly { readonly whole: number; readonly rest: number }[] {
  const all = weights.reduce((a, b) => a + BigInt(b), 0n);
  return weights.map((w) => ({
    whole: Number((BigInt(w) * BigInt(total)) / all),
    rest: Number((BigInt(w) * BigInt(total)) % all) / Number(all),
  }));
}
/**
 * Slots of the heads `[layer][head]`: the lowest scores of the model stream, one after the other, ties to the first.
 */
export function streaming(scores: readonly (readonly number[])[], share: number, slots: number, n: number): number[][] {
  const left = scores.map((row) => row.map((x) => Math.min(1, Math.max(0, x)))),
    out = scores.map((row) => row.map(() => n));
  for (let k = Math.round(share * scores.flat().length); k > 0; k--) {
    const least = Math.min(...left.flat()),
      l = left.findIndex((row) => row.includes(least)),
      g = left[l].indexOf(least);
    left[l][g] = Infinity;
    out[l][g] = Math.min(n, slots);
  }
  return out;
}
/** LU-KV's slots of one layer's heads from the shares that they lose. */
export function curve(lost: readonly number[], n: number): number[] {
  const ideal = lost.map((x) => n - n * Math.max(0, Math.min(1, x))),
    sum = ideal.reduce((a, b) => a + b, 0),
    kept = ideal.map((x) => x - (x % 1));
  const total = Math.min(lost.length * n, Math.max(lost.length, Math.round(sum)));
  const owed = ideal.map((x) => x % 1);
  for (
    let left = total - kept.reduce((a, b) => a + b, 0), given = 0;
    left > 0 && given < lost.length;
    left--, given++
  ) {
    const g = owed.indexOf(Math.max(...owed));
    owed[g] = -1;
    kept[g]++;
  }
  return kept.map((x) => Math.max(1, Math.min(n, x)));
}
