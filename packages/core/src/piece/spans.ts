import type { PositionSpan } from './atoms.ts';

const isSpan = (x: unknown): x is PositionSpan =>
  Array.isArray(x) && x.length === 2 && x.every((n) => Number.isSafeInteger(n)) && x[0] >= 0 && x[0] < x[1];

/** Whether a value is a list of ranges of positions, ordered and disjoint. */
export const areSpans = (x: unknown): x is readonly PositionSpan[] =>
  Array.isArray(x) && x.every((one, i) => isSpan(one) && (i === 0 || one[0] > (x[i - 1] as PositionSpan)[1]));

/** Returns the positions of ranges in any order, as ordered and disjoint ranges; empty ones are left out. */
export function joinedSpans(spans: readonly PositionSpan[]): readonly PositionSpan[] {
  const joined: [number, number][] = [];
  for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (to <= from) continue;
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

/** Returns the number of positions in disjoint ranges. */
export const slotsIn = (spans: readonly PositionSpan[]): number =>
  spans.reduce((sum, [from, to]) => sum + to - from, 0);

/** Formats ranges as the option of `protect`: `0:12 40:52`. */
export const spansText = (spans: readonly PositionSpan[]): string =>
  spans.map(([from, to]) => `${from}:${to}`).join(' ');

/** Returns the ranges of a text such as `0:12 40:52`, or of a list of pairs, joined; undefined for anything else. */
export function readSpans(x: unknown): readonly PositionSpan[] | undefined {
  const pairs: unknown =
    typeof x === 'string'
      ? x
          .trim()
          .split(/\s+/)
          .map((part) => /^(\d{1,15}):(\d{1,15})$/.exec(part)?.slice(1).map(Number))
      : x;
  return Array.isArray(pairs) && pairs.every(isSpan) ? joinedSpans(pairs) : undefined;
}
