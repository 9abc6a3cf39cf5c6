import type { Entry } from './model-wide.oracle.ts';

/** Slots of each layer and head by sorting all composite tokens: `shares` are the layers' own budgets. */
export function compositeOracle(
  model: readonly (readonly (readonly Entry[])[])[],
  shares: readonly number[],
): number[][] {
  const mean = (x: readonly number[]): number => x.reduce((a, b) => a + b, 0) / x.length;
  const layers = model.map((heads, l) => {
    const ordered = heads.map((row) => [
      ...row.filter((e) => e.forced).sort((a, b) => b.score - a.score),
      ...row.filter((e) => !e.forced && !e.banned).sort((a, b) => b.score - a.score),
    ]);
    const usable = Math.max(...ordered.map((row) => row.length)),
      sure = Math.max(...heads.map((row) => row.filter((e) => e.forced).length), Math.min(1, shares[l], usable));
    return {
      sure,
      composites: Array.from({ length: usable }, (_, k) => mean(ordered.flatMap((row) => row[k]?.score ?? []))),
    };
  });
  const first = layers[0].composites.map((_, k) =>
    Math.max(...layers.flatMap(({ composites }) => composites[k] ?? [])),
  );
  const open = layers
    .flatMap(({ sure, composites }, l) =>
      (l === 0 ? first : composites).flatMap((score, k) => (k < sure ? [] : [{ score, l }])),
    )
    .sort((a, b) => b.score - a.score || a.l - b.l);
  const sizes = layers.map(({ sure }) => sure),
    left = shares.reduce((a, b) => a + b, 0) - sizes.reduce((a, b) => a + b, 0);
  for (const { l } of open.slice(0, Math.max(0, left))) sizes[l]++;
  return model.map((heads, l) => heads.map((row) => Math.min(sizes[l], row.length)));
}
