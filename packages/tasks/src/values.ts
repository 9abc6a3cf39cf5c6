import type { Random } from './random.ts';

const UPPER = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ'],
  DIGITS = [...'0123456789'];

/** Draws letters and digits of a credential, at least one of each. */
export function code(draw: Random, length: number): string {
  for (;;) {
    const text = letters(draw, length, [...UPPER, ...DIGITS]);
    if (/[A-Z]/.test(text) && /\d/.test(text)) return text;
  }
}

export const letters = (draw: Random, length: number, from: readonly string[] = UPPER): string =>
  Array.from({ length }, () => draw.pick(from)).join('');

/** Draws a whole number, both bounds included. */
export const between = (draw: Random, low: number, high: number): number => low + draw.below(high - low + 1);

/** Draws a version 4 UUID. */
export const uuid = (draw: Random): string =>
  'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'.replace(/[xy]/g, (c) =>
    (c === 'x' ? draw.below(16) : 8 + draw.below(4)).toString(16),
  );

/** Draws `count` distinct values. */
export function distinct(count: number, make: () => string): readonly string[] {
  const found = new Set<string>();
  while (found.size < count) found.add(make());
  return [...found];
}

/** Returns the elements in random order. */
export const shuffle = <T>(draw: Random, all: readonly T[]): readonly T[] => draw.sample(all, all.length);

/** Joins words as in "a, b, and c". */
export const listText = (words: readonly string[]): string =>
  words.length === 1 ? words[0] : `${words.slice(0, -1).join(', ')}, and ${words.at(-1)}`;
