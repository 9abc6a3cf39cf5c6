import { randomUUID } from 'node:crypto';
import { KvError } from '@kv/core';
import { renderedAfter, renderedIds, type ChatTemplate, type Tokenizer } from '@kv/models';

/** Converts turns to tokens, and defines where an answer ends. */
export interface ChatTurns {
  /** Returns the tokens of one turn; `before` is the text so far, empty at the start. */
  turn(said: string, before: string): readonly number[];
  /** Text that ends an answer. */
  readonly stop: readonly string[];
}

/**
 * Turns for models without a chat template: each is a line that the model continues, its answer ends with the line, and
 * a system text precedes all turns in lines of its own.
 */
export function lineTurns(tokenizer: Tokenizer, system: string | undefined): ChatTurns {
  return {
    turn(said, before) {
      const ids = (text: string, special: boolean): readonly number[] =>
        tokenizer.encode(text, { special, untrusted: [[0, text.length]] }).ids;
      if (before === '') return ids(system === undefined ? said : `${system}\n${said}`, true);
      return ids(before.endsWith('\n') ? said : `\n${said}`, false);
    },
    stop: ['\n'],
  };
}

/**
 * Turns for models with a chat template. What follows an earlier answer does not depend on it, so only that part is
 * rendered and fed. The user's text stays text: it cannot end a turn or begin another.
 */
export function templateTurns(tokenizer: Tokenizer, template: ChatTemplate, system: string | undefined): ChatTurns {
  const start = system === undefined ? [] : [{ role: 'system', content: system }];
  return {
    turn(said, before) {
      const user = { role: 'user', content: said };
      if (before === '') return renderedIds(tokenizer, template.render([...start, user]));
      // Placeholder for an answer that is in the cache already; no user can guess it.
      const answer = randomUUID(),
        earlier = [...start, { role: 'user', content: 'a' }, { role: 'assistant', content: answer }],
        rest = renderedAfter(template.render([...earlier, user]), answer);
      if (!rest)
        throw new KvError(
          'chat template',
          'expected a template that writes the answers of a conversation, got a text without one',
        );
      return renderedIds(tokenizer, rest);
    },
    stop: [],
  };
}
