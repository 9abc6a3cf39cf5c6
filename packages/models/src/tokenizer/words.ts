import { KvError } from '@kv/core';
import { show, type Fields } from '../checkpoint/fields.ts';
import { matches } from './expression/matcher.ts';
import { compile, type Program } from './expression/program.ts';
import { SplitPreTokenizer } from './library.ts';
import type { Work } from './work.ts';

/** The longest expression, in characters: those of known models have 400 at most. */
const LONGEST = 4096;

/** Cuts a text into words. */
export type Cut = (text: string, work: Work) => readonly string[];

/**
 * A `Split` of a tokenizer.json. Its expression, in the notation of Oniguruma, is put into that of JavaScript by the
 * library, and is matched here, where work is counted. @throws KvError for an expression that cannot be
 */
export function splitter(part: Fields, where: string): Cut {
  const program = programOf(part, where);
  const only = part.behavior === 'Removed' || part.invert === true;
  return (text, work) => {
    const words: string[] = [];
    let done = 0;
    const put = (from: number, to: number): void => {
      if (to > from) words.push(text.slice(from, to));
    };
    for (const [start, end] of matches(program, text, work)) {
      if (!only) put(done, start);
      put(start, end);
      done = end;
    }
    if (!only) put(done, text.length);
    return words;
  };
}

/** Cuts by each in turn. */
export function inTurn(cuts: readonly Cut[]): Cut {
  return (text, work) => {
    let words: readonly string[] = text === '' ? [] : [text];
    for (const cut of cuts) words = words.flatMap((word) => cut(word, work));
    return words;
  };
}

function programOf(part: Fields, where: string): Program {
  const { String: text, Regex: regex } = part.pattern as { readonly String?: string; readonly Regex?: string };
  const source = regex ?? text ?? '';
  const wrong = (got: string): KvError =>
    new KvError(where, `expected a pre-tokenizer with an expression that can be matched, got ${got}`);
  if (source.length > LONGEST) throw wrong(`one of ${source.length} characters (${LONGEST} at most)`);
  try {
    const { pattern } = new SplitPreTokenizer({
      type: 'Split',
      pattern: regex === undefined ? { String: source } : { Regex: source },
      behavior: 'Isolated',
      invert: false,
    });
    if (pattern === null) throw new Error('no expression');
    return compile(pattern);
  } catch (cause) {
    // V8 repeats the whole expression before what is wrong with it.
    const message = (cause as Error).message.replace(/^.*\/gu: /s, '').split('\n', 1)[0];
    throw wrong(`${show(source)}: ${message?.slice(0, 200)}`);
  }
}
