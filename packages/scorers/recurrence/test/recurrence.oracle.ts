/** What is known of a slot: its own step, the last that looked at it, and the longest time between two that did. */
export interface Tracked {
  readonly position: number;
  seen: number;
  longest: number;
}
/** A slot as it enters the cache. */
export const fresh = (position: number): Tracked => ({ position, seen: -1, longest: 0 });
/** A step at time t that gives each slot a weight. */
export function look(
  slots: readonly Tracked[],
  weights: readonly number[],
  t: number,
  above: number,
  prompt: number,
): void {
  slots.forEach((slot, j) => {
    if (!(weights[j] > above)) return;
    const before = slot.seen >= 0 ? slot.seen : Math.max(slot.position, prompt - 1);
    slot.longest = Math.max(slot.longest, t - before);
    slot.seen = t;
  });
}
const sigma = (x: number): number => 1 / (1 + Math.exp(-x));
/** 2σ(-(t - TS) / MRI) + 2σ(-1 / MRI), 0 without an MRI. */
export const score = ({ position, seen, longest }: Tracked, t: number, prompt: number): number =>
  longest === 0
    ? 0
    : 2 * sigma(-(t - (seen >= 0 ? seen : Math.max(position, prompt - 1))) / longest) + 2 * sigma(-1 / longest);
