import { randomUUID } from 'node:crypto';
import type { ChatMessage, ChatTemplate, Model } from '@kv/models';
import type { ChatRequest, CompletionRequest } from './schema.ts';
import { conversation } from './conversation.ts';
import { Refusal } from './refusal.ts';

/** A prompt as the model reads it. */
export interface Prompt {
  readonly ids: readonly number[];
  /** The text it was given as; absent for ids. */
  readonly text?: string;
}

/** The prompts of a request for completions, in order. @throws Refusal for ids that are none */
export function completionPrompts(
  { prompt }: CompletionRequest,
  { tokenizer, config: { vocab } }: Pick<Model, 'tokenizer' | 'config'>,
): readonly Prompt[] {
  const all = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt;
  return (all as readonly (string | readonly number[])[]).map((one, i) => {
    const param = all.length === 1 ? 'prompt' : `prompt[${i}]`,
      read = typeof one === 'string' ? { ids: tokenizer.encode(one).ids, text: one } : { ids: one };
    const wrong = read.ids.find((id) => id >= vocab);
    if (wrong !== undefined)
      throw new Refusal(`'${param}' must hold token ids below ${vocab}, got ${wrong}`, { param });
    if (read.ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
    return read;
  });
}

/** A conversation as a prompt, and the text that ends an answer where the model has no token for it. */
export interface ChatPrompt extends Prompt {
  readonly stop: readonly string[];
}

/**
 * A conversation in the words of the model's chat template; without one, lines that the model goes on writing.
 * @throws Refusal or KvError for a conversation that the template does not take
 */
export function chatPrompt(request: ChatRequest, { tokenizer, chatTemplate }: Model): ChatPrompt {
  const render = chatTemplate?.(),
    messages = conversation(request, render);
  const prompt = render
    ? { ids: templateIds(messages, render, tokenizer), stop: [] }
    : { ids: tokenizer.encode(lines(messages), { parse: false }).ids, stop: ['\n'] };
  if (prompt.ids.length === 0)
    throw new Refusal("'messages' must have at least one token, got none", { param: 'messages' });
  return prompt;
}

/** Answers stand on the line that asked for them. */
const lines = (messages: readonly ChatMessage[]): string =>
  messages
    .map(({ role, content }, i) =>
      i === 0 || (role === 'assistant' && messages[i - 1]?.role === 'user') ? content : `\n${content}`,
    )
    .join('');

/**
 * Ids of a rendered conversation. Special tokens that a message holds stay text, so that nobody ends their own turn or
 * begins another's: each is rendered as a mark that no message holds.
 */
function templateIds(
  messages: readonly ChatMessage[],
  render: ChatTemplate,
  tokenizer: Model['tokenizer'],
): readonly number[] {
  const specials = [...tokenizer.specials.keys()].filter((name) => name !== '').sort((a, b) => b.length - a.length),
    mark = randomUUID(),
    found: string[] = [];
  const marked = (text: string): string => {
    let rest = text;
    for (let out = ''; ; ) {
      const at = specials
        .map((special) => ({ special, at: rest.indexOf(special) }))
        .filter(({ at }) => at >= 0)
        .sort((a, b) => a.at - b.at || b.special.length - a.special.length)[0];
      if (!at) return out + rest;
      out += `${rest.slice(0, at.at)}<${mark}:${found.push(at.special) - 1}>`;
      rest = rest.slice(at.at + at.special.length);
    }
  };
  const text = render(messages.map((message) => ({ ...message, content: marked(message.content) })));
  return text
    .split(new RegExp(`<${mark}:(\\d+)>`))
    .flatMap((part, i) =>
      i % 2 === 0
        ? tokenizer.encode(part, { special: false, parse: true }).ids
        : tokenizer.encode(found[Number(part)] ?? '', { special: false, parse: false }).ids,
    );
}
