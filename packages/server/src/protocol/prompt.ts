import { randomUUID } from 'node:crypto';
import type { ChatMessage, ChatTemplate, Model } from '@kv/models';
import type { ChatRequest, CompletionRequest } from './schema.ts';
import { conversation } from './conversation.ts';
import { Refusal } from './refusal.ts';
import { tooLong, type PromptLimits, type TextPart, type TextReader } from './text-reader.ts';

/** A prompt as the model reads it. */
export interface Prompt {
  readonly ids: readonly number[];
  /** The text it was given as; absent for ids. */
  readonly text?: string;
}

/** The prompts of a request for completions, in order. @throws Refusal for ids that are none, and for too many */
export async function completionPrompts(
  { prompt }: CompletionRequest,
  vocab: number,
  reader: TextReader,
  limits: PromptLimits,
): Promise<readonly Prompt[]> {
  const all = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt,
    prompts: Prompt[] = [];
  for (const [i, one] of (all as readonly (string | readonly number[])[]).entries()) {
    const param = all.length === 1 ? 'prompt' : `prompt[${i}]`,
      read =
        typeof one === 'string' ? { ids: await reader.read([{ text: one }], limits, param), text: one } : { ids: one };
    if (read.ids.length > limits.tokens) throw tooLong(read.ids.length, limits.of, param);
    const wrong = read.ids.find((id) => id >= vocab);
    if (wrong !== undefined)
      throw new Refusal(`'${param}' must hold token ids below ${vocab}, got ${wrong}`, { param });
    if (read.ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
    prompts.push(read);
  }
  return prompts;
}

/** A conversation as a prompt, and the text that ends an answer where the model has no token for it. */
export interface ChatPrompt extends Prompt {
  readonly stop: readonly string[];
}

/**
 * A conversation in the words of the model's chat template; without one, lines that the model goes on writing.
 * @throws Refusal or KvError for a conversation that the template does not take, or that is too long
 */
export async function chatPrompt(
  request: ChatRequest,
  { tokenizer, chatTemplate }: Model,
  reader: TextReader,
  limits: PromptLimits,
): Promise<ChatPrompt> {
  const render = chatTemplate?.(),
    messages = conversation(request, render);
  // before the template makes more of it
  reader.expectFits(
    messages.reduce((sum, { content }) => sum + content.length, 0),
    limits,
    'messages',
  );
  const parts = render
      ? templateParts(messages, render, tokenizer)
      : [{ text: lines(messages), options: { parse: false } }],
    ids = await reader.read(parts, limits, 'messages');
  if (ids.length === 0) throw new Refusal("'messages' must have at least one token, got none", { param: 'messages' });
  return { ids, stop: render ? [] : ['\n'] };
}

/** Answers stand on the line that asked for them. */
const lines = (messages: readonly ChatMessage[]): string =>
  messages
    .map(({ role, content }, i) =>
      i === 0 || (role === 'assistant' && messages[i - 1]?.role === 'user') ? content : `\n${content}`,
    )
    .join('');

/**
 * A rendered conversation. Special tokens that a message holds stay text, so that nobody ends their own turn or begins
 * another's: each is rendered as a mark that no message holds.
 */
function templateParts(
  messages: readonly ChatMessage[],
  render: ChatTemplate,
  tokenizer: Model['tokenizer'],
): readonly TextPart[] {
  const specials = [...tokenizer.specials.keys()].filter((name) => name !== '').sort((a, b) => b.length - a.length),
    special = new RegExp(specials.map((name) => name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|') || '(?!)', 'g'),
    mark = randomUUID(),
    found: string[] = [];
  const marked = (text: string): string => text.replace(special, (name) => `<${mark}:${found.push(name) - 1}>`);
  return render(messages.map((message) => mapTexts(message, marked)))
    .split(new RegExp(`<${mark}:(\\d+)>`))
    .map((text, i) =>
      i % 2 === 0
        ? { text, options: { special: false, parse: true } }
        : { text: found[Number(text)] ?? '', options: { special: false, parse: false } },
    );
}

/** A value with every text in it mapped, but for the role. */
function mapTexts<T>(value: T, map: (text: string) => string): T {
  const inner = (each: unknown): unknown => {
    if (typeof each === 'string') return map(each);
    if (Array.isArray(each)) return each.map(inner);
    if (typeof each !== 'object' || each === null) return each;
    return Object.fromEntries(
      Object.entries(each).map(([name, item]) => [map(name), name === 'role' ? item : inner(item)]),
    );
  };
  return inner(value) as T;
}
