import type { Tokens } from '@kv/core';

/** Characters `[start, end)` of a text. */
export type Extent = readonly [start: number, end: number];

/** Longest value in characters: what follows is cut off. */
const LONGEST = 4096;
/** What stands between a key and its value: spaces, the scheme of an HTTP header, marks of emphasis. */
const BEFORE = /[ \t]*(?:(?:Bearer|Basic|Token)[ \t]+)?[ \t*]*/iy;
/** An opening quote, escaped or not. */
const QUOTE = /\\*["'`“‘«]/y;
const CLOSING: Readonly<Record<string, string>> = { '“': '”', '‘': '’', '«': '»' };
const OPENING: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{', '>': '<' };
const ENDS = /[\s"'`,;|<>”’»]/;
/** A further group of digits of a card or bank account that is written in groups. */
const GROUP = / \d{4}(?![\d\p{L}])/uy;

/**
 * Returns where a value lies that follows a key in a text: a quoted text without its quotes, else what comes before
 * white space or a delimiter, without the full stop of its sentence; `[start, start]` where none follows on the line.
 *
 * @param start offset after the key with its sign, such as `password:`
 */
export function valueAfter(text: string, start: number): Extent {
  const from = skip(BEFORE, text, start),
    open = matchAt(QUOTE, text, from);
  return open === '' ? bareValue(text, from) : quotedValue(text, from, open);
}

/** Returns the extent of a quoted text; of one that its line does not close, to the end of what has no space. */
function quotedValue(text: string, from: number, open: string): Extent {
  const start = from + open.length,
    mark = open.at(-1)!, // a match is not empty
    closing = open.slice(0, -1) + (CLOSING[mark] ?? mark);
  for (let end = start; end < Math.min(text.length, start + LONGEST); end++) {
    if (text[end] === '\n') break;
    if (text.startsWith(closing, end) && (open.length > 1 || !isEscaped(text, start, end))) return [start, end];
  }
  return bareValue(text, start);
}

const isEscaped = (text: string, start: number, end: number): boolean => {
  let slashes = 0;
  while (end - slashes > start && text[end - slashes - 1] === '\\') slashes++;
  return slashes % 2 === 1;
};

/** Returns the extent of a value without quotes that begins at `start`. */
export function bareValue(text: string, start: number): Extent {
  const limit = Math.min(text.length, start + LONGEST),
    opened: string[] = [];
  let end = start;
  for (; end < limit; end++) {
    const c = text[end];
    if (ENDS.test(c) || (c === '\\' && /["'nrt\\]/.test(text[end + 1] ?? ''))) break;
    if ('([{'.includes(c)) opened.push(c);
    else if (c in OPENING && opened.pop() !== OPENING[c]) break;
  }
  while (end > start && /[.:!?]/.test(text[end - 1]) && (end === text.length || /[\s"'`)\]}]/.test(text[end]))) end--;
  if (end - start === 4 && /^\d{4}$/.test(text.slice(start, end)))
    for (let next = matchAt(GROUP, text, end); next !== ''; next = matchAt(GROUP, text, end)) end += next.length;
  return [start, end];
}

/** Returns what a sticky pattern matches at an offset, or ''. */
export function matchAt(pattern: RegExp, text: string, at: number): string {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? '';
}
const skip = (pattern: RegExp, text: string, at: number): number => at + matchAt(pattern, text, at).length;

/** Returns the last token that starts before the offset `end`, or -1. */
export function tokenBefore(end: number, offsets: Tokens['offsets']): number {
  let low = 0,
    high = offsets.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (offsets[middle][0] < end) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
