import { KvError } from '@kv/core';
import { templateMessages } from '@kv/models';
import type { ChatMessage, ChatTemplate } from '@kv/models';
import type { AskNames } from './ask.ts';
import { Refusal } from './refusal.ts';
import { joined } from './text-join.ts';

/** Returns a text that is given whole, or in parts. */
export const textOf = (
  given: string | readonly ({ readonly text: string } | { readonly refusal: string })[] = '',
): string =>
  typeof given === 'string' ? given : joined(given.map((part) => ('text' in part ? part.text : part.refusal)));

/**
 * Returns the index of the part of a request that the `i`th message of its conversation is of.
 * @param parts how many parts there are
 * @param messagesOf counts the messages that the first parts are
 */
export function partOf(i: number, parts: number, messagesOf: (first: number) => number): number {
  let [low, high] = [0, parts];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (messagesOf(middle + 1) > i) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Returns messages in OpenAI's form as a chat template reads them, calls and their results included.
 * @param names what the client calls a message, and its fields
 * @throws Refusal naming calls or results that the template would leave out, or that do not belong together
 */
export function conversation(
  messages: readonly ChatMessage[],
  template: ChatTemplate | undefined,
  { one, field = (i, name) => `${one(i)}.${name}` }: Pick<AskNames, 'one' | 'field'>,
): readonly ChatMessage[] {
  if (!template) {
    for (const [i, { role, tool_calls: calls }] of messages.entries())
      if (role === 'tool' || calls !== undefined) {
        const param = field(i, role === 'tool' ? 'role' : 'tool_calls');
        throw new Refusal(`'${param}' is not supported, since this model has no chat template that writes it`, {
          param,
        });
      }
    return messages;
  }
  try {
    return templateMessages(template, messages);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    const [, i, name] = /^messages\[(\d+)\]\.(.*)$/.exec(cause.at) ?? [],
      param = name === undefined ? cause.at : field(Number(i), name);
    throw new Refusal(`'${param}': ${cause.message.slice(cause.at.length + 2)}`, { param });
  }
}
