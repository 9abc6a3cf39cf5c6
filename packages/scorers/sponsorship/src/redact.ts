import { explicitKeys } from './regex.ts';

const HIDDEN = '[redacted]';
/**
 * The value after an anchor, in quotes or not, with the scheme of an HTTP header. Values of under 4 characters are
 * ordinary words.
 */
const VALUE = /^[\s"'`\\]{0,64}(?:(?:Bearer|Basic|Token)\s+)?([^\s"'`,;\\]{4,512})/i;
const USER = /(?<=\b[a-z][a-z0-9+.-]{0,31}:\/\/)[^\s/@]{1,512}(?=@)/gi;

type Span = readonly [from: number, to: number];

/**
 * Returns a text with the values after explicit keys hidden, and the user part of addresses.
 *
 * @param before the text that precedes it, such as the prompt of an answer: a key at its end counts, and its values are
 * hidden wherever the text repeats them. Default none
 */
export function redact(text: string, before = ''): string {
  if (before === '') return withoutUser(withoutSpans(text, valuesOf(text)));
  const all = before + text,
    spans = valuesOf(all),
    known = spans.filter(([, to]) => to <= before.length).map((span) => bare(all.slice(...span))),
    after = spans.flatMap(([from, to]): readonly Span[] =>
      to <= before.length ? [] : [[Math.max(0, from - before.length), to - before.length]],
    );
  return withoutUser([...new Set(known)].reduce(withoutValue, withoutSpans(text, after)));
}

/** Returns the text with the user part of every address hidden. */
export const withoutUser = (text: string): string => text.replace(USER, HIDDEN);

function valuesOf(text: string): readonly Span[] {
  const spans: Span[] = [];
  let done = 0;
  for (const { start, text: anchor } of explicitKeys({ ids: [0], text, offsets: [[0, text.length]] })) {
    const end = start + anchor.length,
      value = VALUE.exec(text.slice(end, end + 1024));
    if (value?.[1] === undefined || end < done || anchor.endsWith('://')) continue; // addresses lose only the user part
    done = end + value[0].length;
    spans.push([done - value[1].length, done]);
  }
  return spans;
}

function withoutSpans(text: string, spans: readonly Span[]): string {
  let [out, done] = ['', 0];
  for (const [from, to] of spans) {
    out += text.slice(done, from) + HIDDEN;
    done = to;
  }
  return out + text.slice(done);
}

/** Returns a value without the full stop of its sentence, or the bracket of its object. */
const bare = (value: string): string => value.replace(/[.!?)\]}>]+$/, '');

const withoutValue = (text: string, value: string): string =>
  value.length < 4 ? text : text.replaceAll(value, HIDDEN);
