export interface Masks {
  readonly forced: readonly number[];
  readonly banned: readonly number[];
}

/**
 * Units one after the other, those with a forced slot first, then by score (ties to the earlier), whole while there is
 * room; then the first that does not fit, by `last` and place.
 */
export function wholeUnitsOracle(
  scores: readonly number[],
  of: readonly number[],
  unitScores: readonly number[],
  budget: number,
  { forced, banned }: Masks,
  last: 'drop' | 'fill',
): number[] {
  const kept = new Set(forced),
    slots = (u: number): number[] =>
      of.flatMap((v, i) => (v === u && !forced.includes(i) && !banned.includes(i) ? [i] : []));
  const holds = (u: number): boolean => forced.some((i) => of[i] === u);
  // a unit whose slots were all evicted or banned is none
  const order = unitScores
    .map((_, u) => u)
    .filter((u) => of.some((v, i) => v === u && !banned.includes(i)))
    .sort((a, b) => Number(holds(b)) - Number(holds(a)) || (holds(a) ? a - b : unitScores[b] - unitScores[a]) || a - b);
  let room = budget - forced.length;
  for (const [place, u] of order.entries()) {
    const more = slots(u);
    if (more.length > room) {
      if (last === 'fill' || place === 0)
        more
          .sort((a, b) => scores[b] - scores[a] || a - b)
          .slice(0, room)
          .forEach((i) => kept.add(i));
      break;
    }
    more.forEach((i) => kept.add(i));
    room -= more.length;
  }
  return [...kept].sort((a, b) => a - b);
}
