import { KvError } from '@kv/core';
import type { Tokenizer } from '@kv/models';

/** How what a person says becomes tokens, and where an answer ends. */
export interface Turns {
  /** The tokens of one turn; `before` is the text so far, empty at the start. */
  turn(said: string, before: string): readonly number[];
  /** Text that ends an answer. */
  readonly stop: readonly string[];
}

/**
 * For models without a chat template: every turn is a line that the model goes on writing, the answer ends with the
 * line, and a system text stands in lines before all turns.
 */
export function lineTurns(tokenizer: Tokenizer, system: string | undefined): Turns {
  return {
    turn(said, before) {
      if (before === '')
        return tokenizer.encode(system === undefined ? said : `${system}\n${said}`, { parse: false }).ids;
      return tokenizer.encode(before.endsWith('\n') ? said : `\n${said}`, { special: false, parse: false }).ids;
    },
    stop: ['\n'],
  };
}

/** A chat template's text of some messages, with the beginning of an answer at its end. */
type Render = (messages: readonly { readonly role: string; readonly content: string }[]) => string;

/** Stands for an answer that is in the cache already. */
const ANSWER = '\u2063answer\u2063';

/**
 * For models with a chat template. What follows an earlier answer does not depend on what was said before, so only that
 * part is rendered and fed.
 */
export function templateTurns(tokenizer: Tokenizer, render: Render, system: string | undefined): Turns {
  const start = system === undefined ? [] : [{ role: 'system', content: system }];
  return {
    turn(said, before) {
      const user = { role: 'user', content: said };
      if (before === '') return encodeTurn(tokenizer, render([...start, user]), said);
      const text = render([...start, { role: 'user', content: 'a' }, { role: 'assistant', content: ANSWER }, user]),
        at = text.lastIndexOf(ANSWER);
      if (at < 0)
        throw new KvError(
          'chat template',
          'expected a template that writes the answers of a conversation, got a text without one',
        );
      return encodeTurn(tokenizer, text.slice(at + ANSWER.length), said);
    },
    stop: [],
  };
}

/**
 * The tokens of a rendered turn; special tokens that a person wrote stay text, so that nobody ends their own turn or
 * begins another's.
 */
function encodeTurn(tokenizer: Tokenizer, text: string, said: string): readonly number[] {
  const ids = (part: string, parse: boolean): readonly number[] =>
    tokenizer.encode(part, { special: false, parse }).ids;
  const own = said.trim();
  if (![...tokenizer.specials.keys()].some((special) => own.includes(special))) return ids(text, true);
  const at = text.lastIndexOf(own);
  if (at < 0)
    throw new KvError(
      'chat template',
      `expected words that it leaves as they are, got ${JSON.stringify(own.slice(0, 60))} with a special token in it`,
    );
  return [...ids(text.slice(0, at), true), ...ids(own, false), ...ids(text.slice(at + own.length), true)];
}
