/**
 * Kept slots of one row: forced ones, then one after the other the best open slot of the unit whose (taken + 1) / size
 * is least, the lower slot of equals; size is of what is not banned.
 */
export function quotaOracle(
  scores: readonly number[],
  units: readonly number[],
  budget: number,
  forced: readonly number[],
  banned: readonly number[],
): number[] {
  const kept = [...forced],
    open = scores.map((_, i) => i).filter((i) => !forced.includes(i) && !banned.includes(i));
  const size = (u: number): number => units.filter((v, i) => v === u && !banned.includes(i)).length,
    taken = (u: number): number => kept.filter((i) => units[i] === u).length;
  while (kept.length < budget && open.length > 0) {
    const next = [...new Set(open.map((i) => units[i]))].map((u) => ({
      slot: open.filter((i) => units[i] === u).reduce((a, b) => (scores[b] > scores[a] ? b : a)),
      worth: (taken(u) + 1) / size(u),
    }));
    const { slot } = next.reduce((a, b) => (b.worth < a.worth || (b.worth === a.worth && b.slot < a.slot) ? b : a));
    kept.push(slot);
    open.splice(open.indexOf(slot), 1);
  }
  return kept.sort((a, b) => a - b);
}
