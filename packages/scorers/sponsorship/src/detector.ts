import type { AnySignal, HostArray, Signal, Tokens } from '@kv/core';

/**
 * Positions of anchors in a text, ascending: tokens after which something worth keeping follows. Sees the whole
 * sequence so far, evicted tokens included.
 * One that reads more than text names it as `signal` and is given its value.
 */
export interface Detector<V = any> {
  (tokens: Tokens, given: V): readonly number[];
  readonly signal?: Signal<string, V>;
}
/** A detector that reads text alone. */
export type TextDetector = (tokens: Tokens) => readonly number[];
/** What a function of text reads beside it. */
export const extra = ({ signal }: { readonly signal?: AnySignal }): readonly AnySignal[] => (signal ? [signal] : []);
/** The value of that, among what a piece is given. */
export const given = (ctx: object, { signal }: { readonly signal?: AnySignal }): unknown =>
  signal ? (ctx as Readonly<Record<string, unknown>>)[signal.as] : undefined;

/** A place where a pattern matched: the text, from which character it stands, and the token in which it ends. */
export interface Match {
  readonly text: string;
  readonly start: number;
  readonly position: number;
}
/** Matches in the order of the text. */
export type Finder = (tokens: Tokens) => readonly Match[];

/** Characters before the end of what was searched that are searched again: a match there may have been cut off. */
const OVERLAP = 256;

/**
 * A finder from a pattern. It searches a sequence that grows from where it stopped, so every character once; matches
 * are at most 256 characters long.
 */
export function finding(pattern: RegExp): Finder {
  const every = new RegExp(pattern.source, [...new Set([...pattern.flags, 'g'])].join(''));
  const known = new WeakMap<Tokens, { readonly size: number; readonly found: readonly Match[] }>();
  return (tokens) => {
    const { text, offsets } = tokens,
      before = known.get(tokens),
      from = before && before.size <= text.length ? Math.max(0, before.size - OVERLAP) : 0;
    if (before?.size === text.length) return before.found;
    const kept = (before?.found ?? []).filter(({ start, text: said }) => start + said.length <= from),
      found: Match[] = [...kept];
    every.lastIndex = kept.reduce(
      (end, { start, text: said }) => Math.max(end, start + said.length),
      Math.max(0, from - OVERLAP),
    );
    for (let match = every.exec(text); match; match = every.exec(text)) {
      if (match[0].length === 0) {
        every.lastIndex++;
        continue;
      }
      const position = tokenBefore(match.index + match[0].length, offsets);
      if (position >= 0) found.push({ text: match[0], start: match.index, position });
    }
    known.set(tokens, { size: text.length, found });
    return found;
  };
}

/** Positions of matches, each once. */
export const positionsOf = (matches: readonly Match[]): readonly number[] =>
  [...new Set(matches.map((m) => m.position))].sort((a, b) => a - b);

/** A detector from a pattern: the last token of every match. Offsets and matches count in UTF-16 units. */
export function matching(pattern: RegExp): TextDetector {
  const find = finding(pattern);
  return function matching(tokens: Tokens) {
    return positionsOf(find(tokens));
  };
}

/** The last token that starts before the offset `end`, or -1. */
function tokenBefore(end: number, offsets: Tokens['offsets']): number {
  let low = 0,
    high = offsets.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (offsets[middle][0] < end) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * A row by position from what `values` says of the first `length` tokens, f32 `[1, length]`; remembered until the text
 * grows, as every layer asks for the same.
 */
export function byPosition(
  values: (tokens: Tokens, data: Float32Array, given: unknown) => void,
): (tokens: Tokens, length: number, given: unknown) => HostArray {
  const known = new WeakMap<Tokens, HostArray>();
  return (tokens, length, beside) => {
    const before = known.get(tokens);
    if (before?.shape[1] === length) return before;
    const data = new Float32Array(length);
    values(tokens, data, beside);
    const row: HostArray = { data, shape: [1, length] };
    known.set(tokens, row);
    return row;
  };
}

/** The detector's anchors as 1 and 0. */
export const marked = (detect: Detector): ReturnType<typeof byPosition> =>
  byPosition((tokens, data, beside) => {
    for (const position of detect(tokens, beside)) if (position < data.length) data[position] = 1;
  });
