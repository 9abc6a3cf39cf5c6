import { KvError } from '@kv/core';
import { fitValue } from '@kv/core/engine';
import { schemas } from '@kv/engine';
import type { ChatMessage, Model, RenderedChat } from '@kv/models';
import type { AskedPrompt, AskNames, TemplateVariables } from './ask.ts';
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
}

/** What prompts are read with. */
export interface PromptReading {
  readonly model: Model;
  readonly reader: TextReader;
  /** Values of the template's variables that the request does not give. */
  readonly usual?: TemplateVariables | undefined;
}

/**
 * Tokenizes what a request asks, prompt by prompt in order.
 * @throws Refusal or KvError for ids that are none, for a conversation that the template rejects, for too many tokens
 */
export async function readPrompts(
  prompt: AskedPrompt,
  names: AskNames,
  { model, reader, usual }: PromptReading,
  limits: PromptLimits,
): Promise<readonly PromptTokens[]> {
  if ('messages' in prompt) return [await chatPrompt(prompt, names, { model, reader, usual }, limits)];
  const read: PromptTokens[] = [];
  for (const [i, one] of prompt.prompts.entries())
    read.push(await promptTokens(one, names.one(i), { model, reader }, limits));
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
  { model: { chatTemplate }, reader, usual }: PromptReading,
  limits: PromptLimits,
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
  const ids = await reader.read(
    template ? rendered(template.render(messages, { variables })) : untrusted(lines(messages)),
    limits,
    param,
  );
  if (ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
  return { ids, stop: template ? [] : ['\n'] };
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
