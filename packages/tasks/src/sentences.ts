/**
 * Splits a text, with its white space collapsed, into sentences: after . ! ? (and a closing quote or bracket), before a
 * space and a capital, digit or quote.
 */
export function sentencesOf(text: string): readonly string[] {
  return text
    .replace(/\s+/g, ' ')
    .trim()
    .split(/(?<=[.!?]|[.!?]["')])\s(?=["'(A-Z0-9])/)
    .filter((sentence) => sentence.length > 1 && sentence.length < 600);
}
