/** One head: what is known of each of its slots. */
export interface Slot {
  readonly position: number;
  readonly score: number;
  readonly forced: boolean;
}
/** What top-k keeps of a head under the partition: slots, ascending. */
export function keptSlots(
  slots: readonly Slot[],
  budget: number,
  share: number,
  prompt: number,
  length: number,
): number[] {
  const best = (of: readonly number[], count: number): number[] =>
    [...of]
      .sort((a, b) => Number(slots[b].forced) - Number(slots[a].forced) || slots[b].score - slots[a].score || a - b)
      .slice(0, Math.max(0, count));
  const all = slots.map((_, i) => i),
    isForced = (i: number): boolean => slots[i].forced,
    own = Math.floor(Math.fround(budget * Math.fround(share)));
  if (length <= prompt)
    return best(all, Math.max(own, Math.min(budget, Math.max(1, all.filter(isForced).length)))).sort((a, b) => a - b);
  const first = all.filter((i) => slots[i].position < prompt),
    later = all.filter((i) => slots[i].position >= prompt),
    forcedFirst = first.filter(isForced).length,
    forcedLater = later.filter(isForced).length,
    stay = best(first, Math.max(forcedFirst, Math.min(own, budget - forcedLater)));
  return [...stay, ...best(later, budget - stay.length)].sort((a, b) => a - b);
}
