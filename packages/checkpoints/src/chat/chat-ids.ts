import { KvError } from '@kv/core';
import type { ChatMessage, ChatOptions, ChatTemplate, RenderedChat } from './chat-template.ts';
import { expectRead } from './template-variables.ts';
import type { Tokenizer } from '../tokenizer/interface.ts';

/** The parts of a model that a chat needs. */
interface ChatModel {
  readonly name: string;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate?: (() => ChatTemplate | undefined) | undefined;
}

/**
 * Returns the ids of a conversation, rendered by the model's chat template. Text of the conversation never becomes a
 * control token, whatever it contains and whatever the template makes of it: contents, names, calls
 * and tools stay text.
 * @param options what the template gets in addition to the messages; by default the rendered text ends with the
 * beginning of an answer
 * @throws KvError for a model without a chat template, or a conversation that the template rejects
 */
export function chatIds(
  { name, tokenizer, chatTemplate }: ChatModel,
  messages: readonly ChatMessage[],
  options?: ChatOptions,
): readonly number[] {
  const template = chatTemplate?.();
  if (template === undefined) throw new KvError('chat', `expected a model with a chat template, got ${name}`);
  expectRead(template, options?.variables);
  return renderedIds(tokenizer, template.render(messages, options));
}

/** Returns the ids of a rendered conversation, or of a part of one. */
export function renderedIds(tokenizer: Tokenizer, { text, untrusted }: RenderedChat): readonly number[] {
  return tokenizer.encode(text, { special: false, untrusted }).ids;
}

/** Returns what follows the last `mark` in a rendered conversation, or undefined if `mark` does not occur. */
export function renderedAfter({ text, untrusted }: RenderedChat, mark: string): RenderedChat | undefined {
  const at = text.lastIndexOf(mark);
  if (at < 0) return undefined;
  return renderedPart({ text, untrusted }, at + mark.length, text.length);
}

/** Returns the characters `[from, to)` of a rendered conversation. */
export const renderedPart = ({ text, untrusted }: RenderedChat, from: number, to: number): RenderedChat => ({
  text: text.slice(from, to),
  untrusted: untrusted
    .map(([start, end]) => [Math.max(start, from) - from, Math.min(end, to) - from] as const)
    .filter(([start, end]) => end > start),
});
