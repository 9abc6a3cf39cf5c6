import type { Tokens } from '@kv/core';
import { COORDINATES } from './places.ts';

/** Characters `[start, end)` of a text. */
export type Extent = readonly [start: number, end: number];

/** A value found in a text, and what it is worth compared with others: secrets most. */
export interface Detail {
  readonly value: Extent;
  /** What names it elsewhere in the text, such as the title of its column. */
  readonly title?: Extent;
  readonly worth: number;
}

/** Longest value in characters. */
const LONGEST = 4096;
/** What stands between a key and its value: spaces, the scheme of an HTTP header, marks of emphasis. */
const BEFORE = /[ \t\u3000]*(?:(?:Bearer|Basic|Token)[ \t]+)?[ \t*]*/iy;
/** An opening quote, escaped or not. */
const QUOTE = /\\*["'`“‘«]/y;
const CLOSING: Readonly<Record<string, string>> = { '“': '”', '‘': '’', '«': '»' };
const OPENING: Readonly<Record<string, string>> = { ')': '(', ']': '[', '}': '{', '>': '<' };
const ENDS = /[\s"'`,;|<>”’»]/;
/** What neither ends a value nor opens or closes a bracket in it. */
const PLAIN = /[^\s"'`,;|<>”’»\\()[\]{}]+/y;
/** Two geographic coordinates are one value. */
const PLACE = new RegExp(COORDINATES, 'iy');
/** A further group of digits of a card or bank account that is written in groups. */
const GROUP = / \d{4}(?![\d\p{L}])/uy;

/**
 * Returns where a value lies that follows a key in a text: a quoted text without its quotes, else what comes before
 * white space or a delimiter, without the full stop of its sentence; `[start, start]` where none follows on the line.
 *
 * @param start offset after the key with its sign, such as `password:`
 * @param longest most characters of a value; what follows is cut off
 */
export function valueAfter(text: string, start: number, longest = LONGEST): Extent {
  const from = skip(BEFORE, text, start),
    open = matchAt(QUOTE, text, from);
  return open === '' ? bareValue(text, from, longest) : quotedValue(text, from, open, longest);
}

/** Returns the extent of a quoted text; of one that its line does not close, to the end of what has no space. */
function quotedValue(text: string, from: number, open: string, longest: number): Extent {
  const start = from + open.length,
    mark = open.at(-1)!, // a match is not empty
    closing = open.slice(0, -1) + (CLOSING[mark] ?? mark),
    [near = ''] = text.slice(start, start + longest).split('\n', 1);
  for (let end = near.indexOf(closing); end >= 0; end = near.indexOf(closing, end + 1))
    if (open.length > 1 || !isEscaped(near, end)) return [start, start + end];
  return bareValue(text, start, longest);
}

const isEscaped = (text: string, at: number): boolean => {
  let slashes = 0;
  while (slashes < at && text[at - slashes - 1] === '\\') slashes++;
  return slashes % 2 === 1;
};

/** Returns the extent of a value without quotes that begins at `start`, of at most `longest` characters. */
export function bareValue(text: string, start: number, longest = LONGEST): Extent {
  const near = text.slice(start, start + longest),
    place = matchAt(PLACE, near, 0),
    opened: string[] = [];
  if (place !== '') return [start, start + place.length];
  let end = 0;
  for (;;) {
    end += matchAt(PLAIN, near, end).length;
    const c = near[end];
    if (c === undefined || ENDS.test(c) || (c === '\\' && /["'nrt\\]/.test(near[end + 1] ?? ''))) break;
    if ('([{'.includes(c)) opened.push(c);
    else if (c in OPENING && opened.pop() !== OPENING[c]) break;
    end++;
  }
  while (end > 0 && isFullStop(near, end)) end--;
  if (end === 4 && /^\d{4}$/.test(near.slice(0, end)))
    for (let next = matchAt(GROUP, near, end); next !== ''; next = matchAt(GROUP, near, end)) end += next.length;
  return [start, start + end];
}
/** Whether the last sign before an offset belongs to the sentence; that of a password may be its own. */
const isFullStop = (text: string, end: number): boolean =>
  (end === text.length || /[\s"'`)\]}]/.test(text[end])) &&
  (/[.:]/.test(text[end - 1]) ||
    (/[!?]/.test(text[end - 1]) && !/[a-z]/i.test(text.slice(0, end).replace(/^\D+$/, ''))));

/** Characters before a value that are searched for the beginning of its name. */
const FARTHEST_NAME = 256;
/** What ends the clause before that of a value, where a key names the value and in prose. */
const ENDS_FIELD = /[,;{}&?|]|[.!?](?=\s)/g,
  ENDS_SENTENCE = /[.!?;](?=\s)/g;
/**
 * Returns where what names a value begins: its key where it has one, as in `"token": "..."`, else the beginning of its
 * sentence, in any case on its line.
 *
 * @param start offset of the value
 */
export function nameBefore(text: string, start: number): number {
  const near = text.slice(Math.max(0, start - FARTHEST_NAME), start),
    line = near.slice(near.lastIndexOf('\n') + 1),
    [sign = ''] = /[:=]["'`\s\\]*$/.exec(line) ?? [],
    said = line.slice(0, line.length - sign.length),
    end = [...said.matchAll(sign === '' ? ENDS_SENTENCE : ENDS_FIELD)].at(-1),
    from = end ? end.index + 1 : 0;
  return start - line.length + from + matchAt(/\s*/y, line, from).length;
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
