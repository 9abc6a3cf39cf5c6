export interface Entry {
  readonly score: number;
  readonly forced: boolean;
  readonly banned: boolean;
}
/**
 * Slots of each layer and head by sorting all of them: forced ones first, then the best, in the order of layers, heads
 * and slots where they are equal.
 */
export function modelWideOracle(model: readonly (readonly (readonly Entry[])[])[], total: number): number[][] {
  const all = model.flatMap((heads, l) => heads.flatMap((row, g) => row.map((entry) => ({ ...entry, l, g })))),
    budgets = model.map((heads) => heads.map((row) => row.filter((e) => e.forced).length));
  const open = all.filter((e) => !e.forced && !e.banned).sort((a, b) => b.score - a.score || a.l - b.l || a.g - b.g);
  for (const { l, g } of open.slice(0, Math.max(0, total - budgets.flat().reduce((a, b) => a + b, 0)))) budgets[l][g]++;
  return budgets;
}
