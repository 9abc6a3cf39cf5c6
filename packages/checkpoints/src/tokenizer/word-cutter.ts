import { KvError } from '@kv/core';
import { show, type JsonFields } from '../read/fields.ts';
import { nameAtomicGroups } from './expression/atomic-groups.ts';
import { matches } from './expression/matcher.ts';
import { compile, type RegexProgram } from './expression/program.ts';
import { SplitPreTokenizer } from './library.ts';
import type { WorkLimit } from './work-limit.ts';

/** Maximum length of an expression in characters; those of known models have at most 400. */
const LONGEST = 4096;

/** Cuts a text into words; `undefined` is a pause. */
export type WordCutter = (text: string, work: WorkLimit) => Iterable<string | undefined>;

/**
 * Makes a cutter from a `Split` of a tokenizer.json. The library translates its expression from Oniguruma to
 * JavaScript; it is matched here, where work is counted.
 * @throws KvError for an expression that cannot be matched
 */
export function splitter(part: JsonFields, where: string): WordCutter {
  const program = programOf(part, where);
  const only = part.behavior === 'Removed' || part.invert === true;
  return function* (text, work) {
    let done = 0;
    for (const match of matches(program, text, work)) {
      if (match === undefined) yield;
      else {
        const [start, end] = match;
        if (!only && start > done) yield text.slice(done, start);
        if (end > start) yield text.slice(start, end);
        done = end;
      }
    }
    if (!only && text.length > done) yield text.slice(done);
  };
}

/** Applies cutters in turn. */
export function inTurn([cut, ...others]: readonly WordCutter[]): WordCutter {
  if (cut === undefined) return (text) => (text === '' ? [] : [text]);
  if (others.length === 0) return cut;
  const then = inTurn(others);
  return function* (text, work) {
    for (const word of cut(text, work))
      if (word === undefined) yield;
      else yield* then(word, work);
  };
}

function programOf(part: JsonFields, where: string): RegexProgram {
  const { String: text, Regex: regex } = part.pattern as { readonly String?: string; readonly Regex?: string };
  const source = regex ?? text ?? '';
  const wrong = (got: string): KvError =>
    new KvError(where, `expected a pre-tokenizer with an expression that can be matched, got ${got}`);
  if (source.length > LONGEST) throw wrong(`one of ${source.length} characters (${LONGEST} at most)`);
  try {
    const { pattern } = new SplitPreTokenizer({
      type: 'Split',
      pattern: regex === undefined ? { String: source } : { Regex: nameAtomicGroups(source) },
      behavior: 'Isolated',
      invert: false,
    });
    if (pattern === null) throw new Error('no expression');
    return compile(pattern);
  } catch (cause) {
    // V8 prefixes its message with the whole expression.
    const message = (cause as Error).message.replace(/^.*\/gu: /s, '').split('\n', 1)[0];
    throw wrong(`${show(source)}: ${message?.slice(0, 200)}`);
  }
}
