import { partOf, text } from '@kv/core';
import { tokenBefore, valueAfter } from './value-extent.ts';
import type { Extent } from './value-extent.ts';
import type { AnySignal, HostArray, Option, OptionPart, StepContext, Signal, Tokens } from '@kv/core';

/** A token followed by something worth keeping. */
export interface Anchor {
  /** Position of the token; -1 where the value begins the text. */
  readonly position: number;
  /** Characters of its value; without them, it is read from the text after the token. */
  readonly value?: Extent;
  /** Characters that name the value elsewhere in the text, such as the title of its column. */
  readonly title?: Extent;
  /** Share of a sponsor's strength that its value gets. @defaultValue 1 */
  readonly worth?: number;
}
/**
 * Returns the anchors in a text, ascending, each as its position alone or with more. Receives the whole sequence so far,
 * evicted tokens included, and the value of the signal that the detector declares.
 */
export type AnchorFinder = (tokens: Tokens, beside?: unknown) => readonly (number | Anchor)[];
/** A detector of anchors, as an option of pieces. */
export type Detector = OptionPart<'detector', AnchorFinder>;
/** Defines a detector: an option part that finds anchors. */
export const detector = partOf<'detector', AnchorFinder>('detector');

type Reader = { readonly signal?: AnySignal | undefined };
/**
 * The signal that a detector or ranker declares in addition to the text, as a list for a piece's `needs`. Only the part
 * knows the name of its value.
 */
export const beside = ({ signal }: Reader): readonly Signal<never, unknown>[] =>
  signal ? [signal as Signal<never, unknown>] : [];
/** Returns the value of that signal from the context of the piece. */
export const besideOf = (ctx: object, { signal }: Reader): unknown =>
  signal && (ctx as Readonly<Record<string, unknown>>)[signal.as];

/**
 * A match of a pattern: its text, the offset of its first character, and the position of the token in which it ends.
 */
export interface PatternMatch {
  readonly text: string;
  readonly start: number;
  readonly position: number;
}
/** Returns matches in the order of the text. */
export type MatchFinder = (tokens: Tokens) => readonly PatternMatch[];

/**
 * Characters searched again when the text grows: a match at the old end may have been cut off. Also the longest match.
 */
const OVERLAP = 256;

/**
 * Returns a finder of a pattern's matches. A sequence that grows is searched from where the last search stopped, so
 * every character is read about once; matches are at most 256 characters long.
 */
export function finding(pattern: RegExp): MatchFinder {
  const every = new RegExp(pattern.source, [...new Set([...pattern.flags, 'g'])].join(''));
  const known = new WeakMap<Tokens, { readonly size: number; readonly found: readonly PatternMatch[] }>();
  return (tokens) => {
    const { text, offsets } = tokens,
      before = known.get(tokens),
      from = before && before.size <= text.length ? Math.max(0, before.size - OVERLAP) : 0;
    if (before?.size === text.length) return before.found;
    const kept = (before?.found ?? []).filter(({ start, text: said }) => start + said.length <= from),
      found: PatternMatch[] = [...kept];
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

/** Returns the anchors that matches end in, one a token, with the values after the matches. */
export function anchorsOf(matches: readonly PatternMatch[], { text }: Tokens): readonly Anchor[] {
  const last = new Map(matches.map((match) => [match.position, match]));
  return [...last.values()]
    .sort((a, b) => a.position - b.position)
    .map((match) => ({ position: match.position, value: valueAfter(text, match.start + match.text.length) }));
}

/** Parses `/source/flags`, or the source alone, as a regular expression; undefined for anything else. */
function expressionOf(x: unknown): RegExp | undefined {
  if (x instanceof RegExp) return x;
  if (typeof x !== 'string' || x === '') return undefined;
  const [, source = x, flags = ''] = /^\/([^]+)\/([a-z]*)$/.exec(x) ?? [];
  try {
    return new RegExp(source, flags);
  } catch {
    return undefined;
  }
}
/** Option of a regular expression, in policy text as `/source/flags` or its source alone. */
export const expression = (fallback: string, says: string): Option<string | RegExp> =>
  text(fallback, 'a regular expression', says, (x) => {
    const pattern = expressionOf(x);
    return pattern && (pattern.flags === '' ? pattern.source : String(pattern));
  });
/** Returns the regular expression of a resolved option. */
export const compilePattern = (pattern: string | RegExp): RegExp => expressionOf(pattern) ?? /(?!)/;

/**
 * Detector: the last token of every match of a pattern, of 256 characters at most. Offsets and matches count in UTF-16
 * units.
 */
export const matching = detector(
  'matching',
  {
    source: 'by hand',
    says: 'Matches of a pattern.',
    options: { pattern: expression('password:', 'What to look for.') },
  },
  ({ pattern }) => {
    const find = finding(compilePattern(pattern));
    return (tokens) => anchorsOf(find(tokens), tokens);
  },
);

const known = new WeakMap<object, WeakMap<Tokens, HostArray>>();
/**
 * Returns a row by position of the tokens seen, f32 `[1, length]`, written by `fill`. Cached for `owner` until the text
 * grows, since every layer asks for the same.
 */
export function byPosition(
  { at: { length }, tokens }: StepContext & { readonly tokens: Tokens },
  owner: object,
  fill: (data: Float32Array) => void,
): HostArray {
  const rows = known.get(owner) ?? new WeakMap<Tokens, HostArray>();
  known.set(owner, rows);
  const before = rows.get(tokens);
  if (before?.shape[1] === length) return before;
  const data = new Float32Array(length);
  fill(data);
  const row: HostArray = { data, shape: [1, length] };
  rows.set(tokens, row);
  return row;
}

/** Returns the anchors that a piece's detector finds. */
export const foundBy = (anchors: Detector, ctx: StepContext & { readonly tokens: Tokens }): readonly Anchor[] =>
  anchors.run(ctx.tokens, besideOf(ctx, anchors)).map((one) => (typeof one === 'number' ? { position: one } : one));

/** Returns the anchors that a piece's detector finds, as 1 and 0 by position. */
export const anchorRow = (
  ctx: StepContext & { readonly tokens: Tokens },
  options: { readonly anchors: Detector },
): HostArray =>
  byPosition(ctx, options, (data) => {
    const { anchors } = options;
    for (const { position } of foundBy(anchors, ctx)) if (position in data) data[position] = 1;
  });
