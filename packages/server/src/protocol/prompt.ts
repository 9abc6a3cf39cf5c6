import { KvError } from '@kv/core';
import type { Span } from '@kv/core';
import { fitValue, joinedSpans } from '@kv/core/engine';
import { isPlace, protectedSpans, schemas } from '@kv/engine';
import type { ProtectedPrompt } from '@kv/engine';
import { roleRanges, unreadVariables } from '@kv/models';
import type { ChatMessage, Model, Protected, PromptRole, RenderedChat } from '@kv/models';
import type { Asked, AskedPrompt, AskNames, TemplateVariables } from './ask.ts';
import { conversation } from './conversation.ts';
import { Refusal } from './refusal.ts';
import { tooLong, type PromptLimits, type PromptText, type TextReader } from './text-reader.ts';

/** A tokenized prompt. */
export interface PromptTokens {
  readonly ids: readonly number[];
  /** The text it was given as; absent if ids were given. */
  readonly text?: string;
  /** Texts that end an answer, where the model has no token that does. */
  readonly stop?: readonly string[];
  /** What was taken and changes nothing. */
  readonly notes?: readonly string[];
  /** Returns the positions that no eviction may drop, of the ids that a cache of this prompt holds. */
  readonly protect?: ((ids: readonly number[]) => readonly Span[]) | undefined;
}

/** What prompts are read with. */
export interface PromptReading {
  readonly model: Model;
  readonly reader: TextReader;
  /** Values of the template's variables that the request does not give. */
  readonly usual?: TemplateVariables | undefined;
  /** Parts that are protected in every conversation. */
  readonly roles?: readonly PromptRole[] | undefined;
}

/**
 * Tokenizes what a request asks, prompt by prompt in order.
 * @throws Refusal or KvError for ids that are none, for a conversation that the template rejects, for too many tokens
 */
export async function readPrompts(
  prompt: AskedPrompt,
  { names, protect = [] }: Pick<Asked, 'names' | 'protect'>,
  { model, reader, usual, roles = [] }: PromptReading,
  limits: PromptLimits,
): Promise<readonly PromptTokens[]> {
  if ('messages' in prompt)
    return [await chatPrompt(prompt, names, { model, reader, usual }, limits, [...roles, ...protect])];
  const read: PromptTokens[] = [];
  for (const [i, one] of prompt.prompts.entries()) {
    const tokens = await promptTokens(one, names.one(i), { model, reader }, limits);
    read.push({ ...tokens, protect: protecting(protect, { ids: tokens.ids, tokenizer: model.tokenizer }) });
  }
  return read;
}

/** Tokenizes a text, or checks ids. */
async function promptTokens(
  given: string | readonly number[],
  param: string,
  { model, reader }: PromptReading,
  limits: PromptLimits,
): Promise<PromptTokens> {
  const { vocab } = model.config,
    read =
      typeof given === 'string'
        ? { ids: await reader.read({ text: given }, limits, param), text: given }
        : { ids: given };
  if (read.ids.length > limits.tokens) throw tooLong(read.ids.length, limits.of, param);
  const wrong = read.ids.find((id) => id >= vocab);
  if (wrong !== undefined) throw new Refusal(`'${param}' must hold token ids below ${vocab}, got ${wrong}`, { param });
  if (read.ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
  return read;
}

/** Renders and tokenizes a conversation with the model's chat template; without one, as lines for the model to continue. */
async function chatPrompt(
  asked: Extract<AskedPrompt, { readonly messages: unknown }>,
  names: AskNames,
  { model: { chatTemplate, tokenizer }, reader, usual }: PromptReading,
  limits: PromptLimits,
  protect: readonly Protected[],
): Promise<PromptTokens> {
  const template = chatTemplate?.(),
    { prompt: param } = names,
    variables = variablesOf(asked.variables, usual, template !== undefined),
    messages = conversation(asked, template, names.one);
  // checked before rendering, which only makes it longer
  reader.expectFits(
    messages.reduce((sum, { content }) => sum + content.length, 0),
    limits,
    param,
  );
  const render = template ? (given: readonly ChatMessage[]) => template.render(given, { variables }) : written,
    chat = render(messages),
    ids = await reader.read(rendered(chat, template === undefined), limits, param);
  if (ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
  return {
    ids,
    stop: template ? [] : ['\n'],
    notes: unreadVariables(template ?? {}, asked.variables).map(
      (name) => `the chat template of this model never reads '${name}'`,
    ),
    protect: protecting(protect, {
      ids,
      tokenizer,
      conversation: {
        rendered: chat,
        special: template === undefined,
        get ranges() {
          return roleRanges((given) => render(given).text, messages, chat.text, false);
        },
      },
    }),
  };
}

/** Returns the values of the template's variables. @throws Refusal for those that no template takes */
function variablesOf(
  own: TemplateVariables | undefined,
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

/**
 * Returns what finds the protected positions of ids: parts by name and ranges are those of the prompt, and texts are looked
 * for. @throws KvError for what cannot be found in the prompt
 */
function protecting(protect: readonly Protected[], prompt: ProtectedPrompt): PromptTokens['protect'] {
  if (protect.length === 0) return undefined;
  const places = protectedSpans(protect.filter(isPlace), prompt),
    texts = protect.filter((one) => !isPlace(one)),
    spansOf = (ids: readonly number[]): readonly Span[] =>
      joinedSpans([...places, ...protectedSpans(texts, { ids, tokenizer: prompt.tokenizer })]),
    own = spansOf(prompt.ids);
  return (ids) => (ids === prompt.ids ? own : spansOf(ids));
}

const rendered = ({ text, untrusted }: RenderedChat, special: boolean): PromptText => ({
  text,
  options: { special, untrusted },
});
/** Writes a conversation without a template, in which no control token is recognized. */
const written = (messages: readonly ChatMessage[]): RenderedChat => {
  const text = lines(messages);
  return { text, untrusted: [[0, text.length]] };
};

/** Writes a conversation as lines; an answer continues the line of its question. */
const lines = (messages: readonly ChatMessage[]): string =>
  messages
    .map(({ role, content }, i) =>
      i === 0 || (role === 'assistant' && messages[i - 1]?.role === 'user') ? content : `\n${content}`,
    )
    .join('');
