import { randomUUID } from 'node:crypto';
import { KvError } from '@kv/core';
import { renderedAfter, renderedIds, type ChatTemplate, type Tokenizer } from '@kv/models';

/** How what a person says becomes tokens, and where an answer ends. */
export interface ChatTurns {
  /** The tokens of one turn; `before` is the text so far, empty at the start. */
  turn(said: string, before: string): readonly number[];
  /** Text that ends an answer. */
  readonly stop: readonly string[];
}

/**
 * For models without a chat template: every turn is a line that the model goes on writing, the answer ends with the
 * line, and a system text stands in lines before all turns.
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
 * For models with a chat template. What follows an earlier answer does not depend on what was said before, so only that
 * part is rendered and fed. What a person writes stays text: nobody ends their own turn or begins another's.
 */
export function templateTurns(tokenizer: Tokenizer, template: ChatTemplate, system: string | undefined): ChatTurns {
  const start = system === undefined ? [] : [{ role: 'system', content: system }];
  return {
    turn(said, before) {
      const user = { role: 'user', content: said };
      if (before === '') return renderedIds(tokenizer, template.render([...start, user]));
      // Stands for an answer that is in the cache already; no person can write it.
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
