import { KvError } from '@kv/core';
import type { ChatMessage, ChatOptions, ChatTemplate, RenderedChat } from './chat-template.ts';
import type { Tokenizer } from '../tokenizer/interface.ts';

/** What a chat needs of a model. */
interface ChatModel {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate?: (() => ChatTemplate | undefined) | undefined;
}

/**
 * The ids of a conversation in the words of the model's chat template. No text of the conversation becomes a control
 * token, whatever stands in it and whatever the template makes of it: contents, names, calls and tools stay text.
 * @param options what the template is given besides the messages; by default the beginning of an answer ends the text
 * @throws KvError for a model without a chat template, or a conversation that it does not take
 */
export function chatIds(
  { name, tokenizer, chatTemplate }: ChatModel,
  messages: readonly ChatMessage[],
  options?: ChatOptions,
): readonly number[] {
  const template = chatTemplate?.();
  if (template === undefined) throw new KvError('chat', `expected a model with a chat template, got ${name}`);
  return renderedIds(tokenizer, template.render(messages, options));
}

/** The ids of what a chat template rendered, or of a part of it. */
export function renderedIds(tokenizer: Tokenizer, { text, untrusted }: RenderedChat): readonly number[] {
  return tokenizer.encode(text, { special: false, untrusted }).ids;
}

/** What stands behind the last `mark` in a rendered conversation; undefined where there is none. */
export function renderedAfter({ text, untrusted }: RenderedChat, mark: string): RenderedChat | undefined {
  const at = text.lastIndexOf(mark);
  if (at < 0) return undefined;
  const from = at + mark.length;
  return {
    text: text.slice(from),
    untrusted: untrusted
      .filter(([, end]) => end > from)
      .map(([start, end]) => [Math.max(start, from) - from, end - from] as const),
  };
}
