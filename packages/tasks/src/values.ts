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

/** Draws in a row without a new value after which there are no more. */
const PATIENCE = 1000;

/** Draws until a value fits. @throws RangeError where none of many draws in a row does */
export function drawUntil<T>(make: () => T, fits: (value: T) => boolean): T {
  for (let idle = 0; idle <= PATIENCE; idle++) {
    const value = make();
    if (fits(value)) return value;
  }
  throw new RangeError(`expected a value that the text does not hold yet, got none in ${PATIENCE} draws: another text`);
}

/** Draws `count` distinct values. @throws RangeError where so few exist that none is new any more */
export const distinct = (count: number, make: () => string): readonly string[] => growing(make)(count);

/** Returns a function that draws `count` distinct values; a larger count extends the same list. It throws as `distinct`. */
export function growing(make: () => string): (count: number) => readonly string[] {
  const found = new Set<string>();
  return (count) => {
    for (let idle = 0; found.size < count; ) {
      const before = found.size;
      found.add(make());
      idle = found.size > before ? 0 : idle + 1;
      if (idle > PATIENCE)
        throw new RangeError(
          `expected ${count} different values, got ${before}: a text with more words, or fewer facts`,
        );
    }
    return [...found].slice(0, count);
  };
}

/** Returns the elements in random order. */
export const shuffle = <T>(draw: Random, all: readonly T[]): readonly T[] => draw.sample(all, all.length);

/** Joins words as in "a, b, and c". */
export const listText = (words: readonly string[]): string =>
  words.length === 1 ? words[0] : `${words.slice(0, -1).join(', ')}, and ${words.at(-1)}`;

/** Returns the different words of 4 to 10 letters. @throws RangeError for fewer than `least` */
export function wordsOf(what: string, sentences: readonly string[], least: number): readonly string[] {
  const letter = String.raw`[\p{L}\p{N}_]`,
    word = new RegExp(String.raw`(?<!${letter})[\p{Ll}\p{Lo}]{4,10}(?!${letter})`, 'gu'),
    words = [...new Set(sentences.flatMap((sentence) => sentence.toLowerCase().match(word) ?? []))];
  if (words.length < least)
    throw new RangeError(
      `${what}: expected a text with at least ${least} words of 4 to 10 letters, got ${words.length}`,
    );
  return words;
}
