/** What lengthens a word or a number, and the scripts that write words without a space between them, where nothing does. */
const WORD = /[\p{L}\p{N}\p{M}_]/u,
  UNSPACED =
    /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;

/** Whether a word ends between two neighbouring characters, of which the inner one belongs to it. */
const ends = (inner: string, outer: string): boolean => !WORD.test(outer) || !WORD.test(inner) || UNSPACED.test(inner);

/**
 * Returns where a text says words as a whole, in UTF-16 units: neither 'no' in 'know' nor '5' in '15', '0.5' or '5,000'.
 */
export function wordsAt(text: string, words: string): readonly number[] {
  const found: number[] = [];
  if (words === '') return found;
  const first = String.fromCodePoint(words.codePointAt(0)!),
    last = [...words.slice(-2)].at(-1)!;
  for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + 1)) {
    const before = text.slice(Math.max(0, at - 2), at),
      after = text.slice(at + words.length, at + words.length + 5),
      longer =
        (/\d\.$/.test(before) && /^\d/.test(words)) ||
        (/\d,$/.test(before) && /^\d{3}(?!\d)/.test(words)) ||
        (/\d$/.test(words) && /^(?:\.\d|,\d{3}(?!\d))/.test(after));
    if (!longer && ends(first, [...before].at(-1) ?? '') && ends(last, [...after][0] ?? '')) found.push(at);
  }
  return found;
}
