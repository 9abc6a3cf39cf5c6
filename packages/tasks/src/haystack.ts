import type { Random } from './random.ts';

/**
 * Encodes text to ids with the UTF-16 span of each; `special` (default true) lets the tokenizer add its tokens at the
 * start of a document.
 */
export type Encode = (
  text: string,
  options?: { readonly special?: boolean },
) => { readonly ids: readonly number[]; readonly offsets: readonly (readonly [number, number])[] };

/** A statement and its depth: it is put at the sentence boundary nearest to this share of the prose. */
export interface HiddenStatement {
  readonly text: string;
  /** Where it stands, as a share of the prose: 0 = first, 1 = last. */
  readonly depth: number;
}

interface Prose {
  readonly pieces: readonly string[];
  readonly sizes: readonly number[];
}

/** Number of starts tried before a sentence may be cut inside a word. */
const WHOLE_WORD_STARTS = 24;
const MAX_STARTS = 400;

/**
 * Builds a document of exactly `tokens` tokens: consecutive sentences, the first cut on the left to make the length
 * exact, with statements between them.
 * @throws RangeError if the statements alone are longer, or no cut gives that length
 */
export function buildHaystack(
  sentences: readonly string[],
  hidden: readonly HiddenStatement[],
  tokens: number,
  encode: Encode,
  random: Random,
): string {
  const size = (text: string): number => encode(` ${text}`, { special: false }).ids.length;
  const own = encode('').ids.length + hidden.reduce((sum, { text }) => sum + size(text), 0);
  if (own > tokens)
    throw new RangeError(`needle: tokens must leave room for ${own} tokens of facts in the document, got ${tokens}`);
  // Parts are counted with a preceding space, which the first part lacks: the first miss tells how far off that is.
  let correction = 0;
  for (let tries = 0; tries < MAX_STARTS; tries++) {
    const prose = run(
      sentences,
      random.below(sentences.length),
      tokens - own + correction,
      size,
      tries < WHOLE_WORD_STARTS,
    );
    if (!prose) continue;
    const document = place(prose, hidden),
      length = encode(document).ids.length;
    if (length === tokens) return document;
    correction += tokens - length;
  }
  throw new RangeError(`needle: no cut of the text gives a document of exactly ${tokens} tokens with this tokenizer`);
}

/** Returns sentences from `start` on that fill `room` tokens, with the first one cut; undefined if no cut fits. */
function run(
  sentences: readonly string[],
  start: number,
  room: number,
  size: (text: string) => number,
  wholeWords: boolean,
): Prose | undefined {
  const pieces: string[] = [],
    sizes: number[] = [];
  let left = room;
  for (let i = 1; ; i++) {
    const sentence = sentences[(start + i) % sentences.length];
    const length = size(sentence);
    if (length > left) break;
    pieces.push(sentence);
    sizes.push(length);
    left -= length;
  }
  if (left === 0) return { pieces, sizes };
  const cut = suffix(sentences[start], left, size, wholeWords);
  return cut === undefined ? undefined : { pieces: [cut, ...pieces], sizes: [left, ...sizes] };
}

/**
 * Returns the end of a sentence that is `tokens` tokens long, cut at a word if `wholeWords`; undefined
 * if there is none.
 */
function suffix(
  sentence: string,
  tokens: number,
  size: (text: string) => number,
  wholeWords: boolean,
): string | undefined {
  for (let at = sentence.length - 1; at >= 0; at--) {
    if (sentence[at] === ' ' || (wholeWords && at > 0 && sentence[at - 1] !== ' ')) continue;
    const text = sentence.slice(at);
    const length = size(text);
    if (length === tokens) return text;
    if (length > tokens + 8) return undefined;
  }
  return undefined;
}

function place({ pieces, sizes }: Prose, hidden: readonly HiddenStatement[]): string {
  let total = 0;
  const ends = [0, ...sizes.map((size) => (total += size))];
  const slots = ends.map((): string[] => []);
  for (const { text, depth } of hidden) {
    const distance = ends.map((end) => Math.abs(end - depth * total));
    slots[distance.indexOf(Math.min(...distance))].push(text);
  }
  return slots.flatMap((statements, i) => [...statements, ...(i < pieces.length ? [pieces[i]] : [])]).join(' ');
}
