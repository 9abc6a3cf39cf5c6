import { KvError } from '@kv/core';
import type { Encode, Problem } from '@kv/tasks';
import { fileBytes } from '../files/read-json.ts';

/** Reads a text file of the user. @throws KvError in one sentence */
export function readText(path: string, called: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(fileBytes(path, called, true));
  } catch (cause) {
    if (KvError.is(cause)) throw cause;
    throw new KvError(called, 'expected text in UTF-8, got other bytes');
  }
}

/** Characters per token to look at before the whole text is tokenized. */
const CHARACTERS = 16;

/**
 * Cuts disjoint windows from the start of a text: `tokens` each, including the tokens that begin a document; the last
 * `read` of them are scored with the others in the cache. @throws KvError if the text has fewer
 */
export function windows(
  text: string,
  called: string,
  {
    encode,
    tokens,
    read,
    problems,
  }: {
    readonly encode: Encode;
    readonly tokens: number;
    readonly read: number;
    readonly problems: number;
  },
): readonly Problem[] {
  const size = tokens - encode('').ids.length;
  if (read >= size) throw new KvError(called, `read must be less than the ${size} tokens of a window, got ${read}`);
  const offsetsOf = (some: string): ReturnType<Encode>['offsets'] => encode(some, { special: false }).offsets,
    start = offsetsOf(text.slice(0, CHARACTERS * size * problems)),
    offsets = start.length < size * problems + 1 ? offsetsOf(text) : start,
    there = Math.floor(offsets.length / size);
  if (there < problems)
    throw new KvError(called, `expected a text of at least ${size * problems} tokens, got ${offsets.length}`);
  const place = (token: number): number => (token < offsets.length ? offsets[token][0] : text.length);
  return Array.from({ length: problems }, (_, i) => {
    const [from, middle, to] = [i * size, (i + 1) * size - read, (i + 1) * size].map(place);
    return {
      id: `${called}/${i}`,
      context: text.slice(from, middle),
      question: '',
      answers: [text.slice(middle, to)],
      grader: 'perplexity',
      maxNewTokens: read,
    };
  });
}
