import { KvError } from '@kv/core';
import { fitValue } from '@kv/core/engine';
import { schemas } from '@kv/engine';
import type { ChatMessage, Model, RenderedChat } from '@kv/models';
import type { ServerOptions } from '../options.ts';
import type { ChatRequest, CompletionRequest } from './schema.ts';
import { conversationTurns, type ConversationTurns } from '../run/conversation-turns.ts';
import { conversation } from './conversation.ts';
import { Refusal } from './refusal.ts';
import { tooLong, type PromptLimits, type PromptText, type TextReader } from './text-reader.ts';

/** A tokenized prompt. */
export interface PromptTokens {
  readonly ids: readonly number[];
  /** The text it was given as; absent if ids were given. */
  readonly text?: string;
}

/** Tokenizes the prompts of a completion request, in order. @throws Refusal for invalid ids and for too many tokens */
export async function completionPrompts(
  { prompt }: CompletionRequest,
  vocab: number,
  reader: TextReader,
  limits: PromptLimits,
): Promise<readonly PromptTokens[]> {
  const all = typeof prompt === 'string' || typeof prompt[0] === 'number' ? [prompt] : prompt,
    prompts: PromptTokens[] = [];
  for (const [i, one] of (all as readonly (string | readonly number[])[]).entries()) {
    const param = all.length === 1 ? 'prompt' : `prompt[${i}]`,
      read =
        typeof one === 'string' ? { ids: await reader.read({ text: one }, limits, param), text: one } : { ids: one };
    if (read.ids.length > limits.tokens) throw tooLong(read.ids.length, limits.of, param);
    const wrong = read.ids.find((id) => id >= vocab);
    if (wrong !== undefined)
      throw new Refusal(`'${param}' must hold token ids below ${vocab}, got ${wrong}`, { param });
    if (read.ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
    prompts.push(read);
  }
  return prompts;
}

/** A tokenized conversation, with the stop texts of a model that has no end-of-turn token. */
export interface ChatPrompt extends PromptTokens {
  readonly stop: readonly string[];
  readonly turns: ConversationTurns;
}

/**
 * Renders and tokenizes a conversation with the model's chat template; without one, as lines for the model to continue.
 * @param usual values of the template's variables that the request does not give
 * @throws Refusal or KvError for a conversation that the template rejects, or that is too long
 */
export async function chatPrompt(
  request: ChatRequest,
  { chatTemplate }: Model,
  reader: TextReader,
  limits: PromptLimits,
  usual?: TemplateVariables | undefined,
): Promise<ChatPrompt> {
  const template = chatTemplate?.(),
    variables = variablesOf(request, usual, template !== undefined),
    messages = conversation(request, template);
  // checked before rendering, which only makes it longer
  reader.expectFits(
    messages.reduce((sum, { content }) => sum + content.length, 0),
    limits,
    'messages',
  );
  const ids = await reader.read(
    template ? rendered(template.render(messages, { variables })) : untrusted(lines(messages)),
    limits,
    'messages',
  );
  if (ids.length === 0) throw new Refusal("'messages' must have at least one token, got none", { param: 'messages' });
  const turns = conversationTurns(messages, {
    render: template && ((given) => template.render(given, { variables })),
    lines,
    given: variables,
    read: (rest) => reader.read(rendered(rest), limits, 'messages'),
  });
  return { ids, stop: template ? [] : ['\n'], turns };
}

type TemplateVariables = NonNullable<ServerOptions['chatTemplateKwargs']>;

/** Returns the values of the template's variables. @throws Refusal for those that no template takes */
function variablesOf(
  { chat_template_kwargs: own }: ChatRequest,
  usual: TemplateVariables | undefined,
  templated: boolean,
): TemplateVariables | undefined {
  if (!own) return usual;
  const param = 'chat_template_kwargs';
  try {
    fitValue(param, schemas.CHAT_TEMPLATE_KWARGS, own);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    throw new Refusal(cause.message.replace(`${param}:`, `'${param}'`), { param });
  }
  if (!templated) throw new Refusal(`'${param}' is not supported, since this model has no chat template`, { param });
  return { ...usual, ...own };
}

const rendered = ({ text, untrusted }: RenderedChat): PromptText => ({ text, options: { special: false, untrusted } });
/** Text in which no control token is recognized. */
const untrusted = (text: string): PromptText => ({ text, options: { untrusted: [[0, text.length]] } });

/** Writes a conversation as lines; an answer continues the line of its question. */
const lines = (messages: readonly ChatMessage[]): string =>
  messages
    .map(({ role, content }, i) =>
      i === 0 || (role === 'assistant' && messages[i - 1]?.role === 'user') ? content : `\n${content}`,
    )
    .join('');
