/**
 * Splits a text, with its white space collapsed, into sentences: after . ! ? (and a closing quote or bracket), before a
 * space and a capital, digit or quote, in any script; and after 。！？ of texts without spaces.
 */
export function sentencesOf(text: string): readonly string[] {
  return text
    .replace(/\s+/g, ' ')
    .trim()
    .split(/(?<=[.!?]|[.!?]["')])\s(?=["'(\p{Lu}\p{Lo}0-9])|(?<=[。！？])\s?(?=.)/u)
    .filter((sentence) => sentence.length > 1 && sentence.length < 600);
}

/** @throws RangeError for a text without sentences, in which nothing can be hidden */
export function expectSentences(what: string, sentences: readonly string[]): void {
  if (sentences.length === 0)
    throw new RangeError(
      `${what}: expected sentences of a text to hide facts in, got none: a longer text, see sentencesOf`,
    );
}

/** Returns `size` sentences from one on, again and again. @throws RangeError without any */
export function proseFrom(what: string, sentences: readonly string[], from: number, size: number): readonly string[] {
  expectSentences(what, sentences);
  return Array.from({ length: size }, (_, i) => sentences[(from + i) % sentences.length]);
}
