import { KvError } from '@kv/core';
import {
  expectRead,
  renderedAfter,
  renderedIds,
  roleRanges,
  type ChatMessage,
  type ChatTemplate,
  type RenderedChat,
  type TemplateVariables,
  type Tokenizer,
} from '@kv/checkpoints';
import type { ProtectedPrompt } from '../generate/protect.ts';
import type { Model } from '../memory/runtime.ts';

/** Converts messages to tokens, and defines where an answer ends. */
export interface ChatTurns {
  /** Returns the tokens of one message; `before` is the text so far, empty at the start. */
  turn(message: string, before: string): readonly number[];
  /** Returns the text of the first message, and where the named parts of the conversation stand in it. */
  opening(message: string): NonNullable<ProtectedPrompt['conversation']>;
  /** Texts that end an answer. */
  readonly stop: readonly string[];
}

/**
 * Returns turns in the model's chat template if it has one, else lines that the model goes on from.
 * @throws KvError for variables where there is no template
 */
export function turnsOf(
  { name, tokenizer, chatTemplate }: Model,
  system: string | undefined,
  variables?: TemplateVariables,
): ChatTurns {
  const template = chatTemplate?.();
  if (template) {
    expectRead(template, variables);
    return templateTurns(tokenizer, template, system, variables);
  }
  if (variables) throw new KvError('chatTemplateKwargs', `expected a model with a chat template, got ${name}`);
  return lineTurns(tokenizer, system);
}

/**
 * Turns for models without a chat template: each is a line that the model continues, its answer ends with the line, and
 * a system text precedes all turns in lines of its own.
 */
export function lineTurns(tokenizer: Tokenizer, system: string | undefined): ChatTurns {
  return {
    turn(message, before) {
      const ids = (text: string, special: boolean): readonly number[] =>
        tokenizer.encode(text, { special, untrusted: [[0, text.length]] }).ids;
      if (before === '') return ids(system === undefined ? message : `${system}\n${message}`, true);
      return ids(before.endsWith('\n') ? message : `\n${message}`, false);
    },
    opening(message) {
      const before = system === undefined ? '' : `${system}\n`,
        text = before + message;
      return {
        rendered: { text, untrusted: [[0, text.length]] },
        special: true,
        ranges: {
          system: before === '' ? [] : [[0, before.length]],
          tools: [],
          'first-user': [[before.length, text.length]],
        },
      };
    },
    stop: ['\n'],
  };
}

/**
 * Turns for models with a chat template. What follows an earlier answer does not depend on it, so only that part is
 * rendered and fed. The user's text stays text: it cannot end a turn or begin another.
 */
export function templateTurns(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  system: string | undefined,
  variables?: TemplateVariables,
): ChatTurns {
  const start = system === undefined ? [] : [{ role: 'system', content: system }];
  return {
    turn(message, before) {
      const user = { role: 'user', content: message };
      if (before === '') return renderedIds(tokenizer, template.render([...start, user], { variables }));
      const earlier = [...start, { role: 'user', content: 'a' }, { role: 'assistant', content: '' }],
        rest = afterAnswer([...earlier, user], start.length + 1, (messages) =>
          template.render(messages, { variables }),
        );
      if (!rest)
        throw new KvError(
          'chat template',
          'expected a template that writes the answers of a conversation, got a text without one',
        );
      return renderedIds(tokenizer, rest);
    },
    opening(message) {
      const messages = [...start, { role: 'user', content: message }],
        rendered = template.render(messages, { variables });
      return {
        rendered,
        ranges: roleRanges((given) => template(given, { variables }), messages, rendered.text, false),
      };
    },
    stop: [],
  };
}

/**
 * Returns what a template writes after the answer in message `i`, which is in the cache already; undefined for a
 * template that writes no answers.
 */
export function afterAnswer(
  messages: readonly ChatMessage[],
  i: number,
  render: (messages: readonly ChatMessage[]) => RenderedChat,
): RenderedChat | undefined {
  const answer = unguessable(); // stands for it
  return renderedAfter(
    render(messages.map((message, at) => (at === i ? { role: 'assistant', content: answer } : message))),
    answer,
  );
}

/** Returns 32 random hexadecimal digits. `randomUUID` is missing in pages without https. */
const unguessable = (): string =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
