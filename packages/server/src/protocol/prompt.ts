import { KvError } from '@kv/core';
import type { PositionSpan } from '@kv/core';
import { fitValue, joinedSpans, showValue } from '@kv/core/engine';
import { isPlace, missingParts, protectedSpans, schemas, textOfProtected } from '@kv/engine';
import type { ProtectedPrompt } from '@kv/engine';
import { answersOf, renderedIds, roleRanges, unreadVariables } from '@kv/models';
import type {
  AnswerStructure,
  ChatMessage,
  ChatTemplate,
  Model,
  ProtectedPart,
  RenderedChat,
  ToolFunction,
} from '@kv/models';
import type { Ask, AskedEffort, AskedPrompt, PromptVariables } from './ask.ts';
import { conversationTurns, type ConversationTurns } from '../run/conversation-turns.ts';
import { conversation } from './conversation.ts';
import { Refusal } from './refusal.ts';
import { afterLine, afterTurn } from './turns.ts';
import { tooLong, type PromptLimits, type PromptText, type TextReader } from './text-reader.ts';

type AskedConversation = Extract<AskedPrompt, { readonly messages: unknown }>;

/** A tokenized prompt. */
export interface PromptTokens {
  readonly ids: readonly number[];
  /** The text it was given as; absent if ids were given. */
  readonly text?: string;
  /** Texts that end an answer, where the model has no token that does. */
  readonly stop?: readonly string[];
  /** What was taken and changes nothing. */
  readonly notes?: readonly string[];
  /**
   * Returns the positions that no eviction may drop, of the ids that a cache of this prompt holds; undefined where its
   * named parts cannot be found in them.
   */
  readonly protect?: ((ids: readonly number[]) => readonly PositionSpan[] | undefined) | undefined;
  /** How the rendered prompt ends. */
  readonly end?: string;
  /** The turns of a conversation. */
  readonly turns?: ConversationTurns;
}

/** What prompts are read with. */
export interface PromptReading {
  readonly model: Model;
  readonly reader: TextReader;
  /** Values of the template's variables that the request does not give. */
  readonly usual?: PromptVariables | undefined;
  /** What is protected in every conversation: a text may stand in none. */
  readonly always?: readonly ProtectedPart[] | undefined;
}

/**
 * Tokenizes what a request asks, prompt by prompt in order.
 * @throws Refusal or KvError for ids that are none, for a conversation that the template rejects, for too many tokens
 */
export async function readPrompts(
  { prompt, tools, names, protect = [] }: Pick<Ask, 'prompt' | 'tools' | 'names' | 'protect'>,
  reading: PromptReading,
  limits: PromptLimits,
): Promise<readonly PromptTokens[]> {
  if ('messages' in prompt) return [await chatPrompt(prompt, { tools, names, protect }, reading, limits)];
  const read: PromptTokens[] = [],
    { tokenizer } = reading.model,
    always = reading.always?.filter((one) => !isPlace(one));
  for (const [i, one] of prompt.prompts.entries()) {
    const tokens = await promptTokens(one, names.one(i), reading, limits);
    read.push({ ...tokens, ...protecting(protect, { ids: tokens.ids, tokenizer }, always) });
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
  asked: AskedConversation,
  { tools, names, protect = [] }: Pick<Ask, 'tools' | 'names' | 'protect'>,
  { model: { chatTemplate, tokenizer }, reader, usual, always }: PromptReading,
  limits: PromptLimits,
): Promise<PromptTokens> {
  const template = chatTemplate?.(),
    { prompt: param } = names,
    variables = variablesOf(asked, usual, template),
    messages = conversation(asked.messages, template, names);
  // checked before rendering, which only makes it longer
  reader.expectFits(held(tools), limits, names.tools);
  reader.expectFits(
    messages.reduce((sum, { content }) => sum + content.length, 0),
    limits,
    param,
  );
  const options = { variables, ...(tools.length > 0 && { tools: tools.map(offered) }) },
    render = template && ((given: readonly ChatMessage[]) => template.render(given, options)),
    chat = render ? render(messages) : written(messages),
    ids = await reader.read(rendered(chat, template === undefined), limits, param);
  if (ids.length === 0) throw new Refusal(`'${param}' must have at least one token, got none`, { param });
  const turns = conversationTurns(asked.messages, {
    given: options,
    tails: template ? [] : ['\n'],
    async rest(i, tail) {
      const rest = render
        ? afterTurn(asked.messages, i, (given) => conversation(given, template, names), render, chat.text)
        : afterLine(messages, i, lines, tail);
      return rest && (await reader.read(rendered(rest, false), limits, param));
    },
  });
  const prompted = (given: readonly ChatMessage[], of: RenderedChat): NonNullable<ProtectedPrompt['conversation']> => ({
    rendered: of,
    special: template === undefined,
    get ranges() {
      const { tools: all, ...without } = options,
        text = (some: readonly ChatMessage[], withTools: boolean): string =>
          template ? template(some, withTools ? options : without) : written(some).text;
      return roleRanges(text, given, of.text, all !== undefined);
    },
  });
  /** What a cache may have begun with: since then the template may have moved a part, such as tools to the last question. */
  function* before(): Generator<ProtectedPrompt> {
    const [first, ...later] = messages.flatMap(({ role }, i) => (role === 'assistant' && i > 0 ? [i] : []));
    for (const end of render && first !== undefined ? [first, ...later.slice(-EARLIER)] : []) {
      const given = messages.slice(0, end),
        text = render!(given); // asked above
      yield { ids: renderedIds(tokenizer, text), tokenizer, conversation: prompted(given, text) };
    }
  }
  const whole = { ids, tokenizer, conversation: prompted(messages, chat) },
    { notes, ...kept } = protecting(protect, whole, always, before);
  return {
    ids,
    stop: template ? [] : ['\n'],
    end: chat.text.slice(-100),
    turns,
    notes: [
      ...unreadVariables(template ?? {}, { ...(asked.thinking && THINKING), ...asked.variables }).map(
        (name) => `the chat template of this model never reads '${name}'`,
      ),
      ...effortNotes(asked.effort, template),
      ...notes,
    ],
    ...kept,
  };
}

/** Returns a function as templates read it. */
const offered = ({
  name,
  description = '',
  parameters = { type: 'object', properties: {} },
}: ToolFunction): object => ({
  type: 'function',
  function: { name, description, parameters },
});

/** Returns the characters of tools, or of another value, as JSON. */
export const held = (value: unknown): number => JSON.stringify(value)?.length ?? 0;

/** The variable by which templates that can leave out reasoning are told to have it. */
const THINKING = { enable_thinking: true };

/** Returns the values of the template's variables. @throws Refusal for those that no template takes */
function variablesOf(
  { variables: own, thinking, effort }: Pick<AskedConversation, 'variables' | 'thinking' | 'effort'>,
  usual: PromptVariables | undefined,
  template: ChatTemplate | undefined,
): PromptVariables | undefined {
  const templated = template !== undefined;
  if (thinking && !templated)
    throw new Refusal("'thinking' is not supported, since this model has no chat template", { param: 'thinking' });
  const asked = {
      ...(effort && effortVariables(effort, template)),
      // a model without a template does not think
      ...(thinking !== undefined && templated && { enable_thinking: thinking }),
    },
    all = Object.keys(asked).length === 0 ? usual : { ...usual, ...asked };
  if (!own) return all;
  const param = 'chat_template_kwargs';
  try {
    fitValue(param, schemas.CHAT_TEMPLATE_KWARGS, own);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause;
    throw new Refusal(cause.message.replace(`${param}:`, `'${param}'`), { param });
  }
  if (!templated) throw new Refusal(`'${param}' is not supported, since this model has no chat template`, { param });
  return { ...all, ...own };
}

/** Whether a template may read a variable; one that does not say what it reads may read any. */
const mayRead = (template: ChatTemplate | undefined, name: string): boolean =>
  template !== undefined && template.reads?.has(name) !== false;

/**
 * Returns the variables by which a template is told how much an answer is to think, or whether.
 * @throws Refusal where the template can be told neither, but for what is so anyway
 */
function effortVariables({ level, usual, param }: AskedEffort, template: ChatTemplate | undefined): PromptVariables {
  if (mayRead(template, 'reasoning_effort')) return { reasoning_effort: level };
  if (mayRead(template, 'enable_thinking')) return { enable_thinking: level !== 'none' };
  const thinks = template !== undefined && answersOf(template).structure(ANY, '') !== ANY, // it has reasoning first
    taken = thinks ? [usual] : ['none', usual];
  if (taken.includes(level)) return {};
  throw new Refusal(
    `'${param}' must be ${taken.map((one) => `'${one}'`).join(' or ')}, since this model has no chat template that is told how much to think, got '${level}'`,
    { param },
  );
}

/** Says what is left of an effort where the template is told no more than whether to think. */
const effortNotes = (effort: AskedEffort | undefined, template: ChatTemplate | undefined): readonly string[] =>
  effort === undefined ||
  ['none', effort.usual].includes(effort.level) ||
  mayRead(template, 'reasoning_effort') ||
  !mayRead(template, 'enable_thinking')
    ? []
    : [`the chat template of this model is told whether to think and not how much: '${effort.level}' is thinking`];
const ANY: AnswerStructure = { type: 'any_text' };

/**
 * Returns what finds the protected positions of ids: parts by name and ranges are those of the prompt, and texts are looked
 * for; and a note on each text that is always protected and does not stand in the prompt.
 * @throws KvError for what the request protects and cannot be found in the prompt
 */
function protecting(
  asked: readonly ProtectedPart[],
  prompt: ProtectedPrompt,
  always: readonly ProtectedPart[] = [],
  before: () => Iterable<ProtectedPrompt> = () => [],
): Required<Pick<PromptTokens, 'notes'>> & Pick<PromptTokens, 'protect'> {
  const all = [...always, ...asked];
  if (all.length === 0) return { notes: [] };
  const named = all.filter((one) => isPlace(one) && !Array.isArray(one)),
    spans = protectedSpans(named, prompt),
    ranges = protectedSpans(
      all.filter((one) => Array.isArray(one)),
      prompt,
    ),
    texts = all.filter((one) => !isPlace(one)),
    { ids: own, tokenizer } = prompt,
    spansOf = (of: readonly ProtectedPart[], ids: readonly number[], partial: boolean): readonly PositionSpan[] =>
      protectedSpans(of, { ids, tokenizer, partial }),
    missing = always.filter((one) => !isPlace(one) && spansOf([one], own, true).length === 0),
    found = joinedSpans([
      ...spans,
      ...ranges,
      ...spansOf(
        texts.filter((one) => !missing.includes(one)),
        own,
        false,
      ),
    ]);
  return {
    notes: [
      ...missingParts(asked, prompt),
      ...missing.map(
        (one) => `${showValue(textOfProtected(one))}, which this server protects, stands nowhere in the prompt`,
      ),
    ],
    protect(ids) {
      if (ids === own) return found;
      const stand = namedIn(ids, named, { ids: own, spans }, before);
      return stand && joinedSpans([...stand, ...ranges, ...spansOf(texts, ids, true)]);
    },
  };
}

/**
 * Returns where named parts stand in the ids of a cache, which begins with this prompt up to their end or with one before
 * it; undefined if it does not.
 */
function namedIn(
  ids: readonly number[],
  named: readonly ProtectedPart[],
  { ids: own, spans }: { readonly ids: readonly number[]; readonly spans: readonly PositionSpan[] },
  before: () => Iterable<ProtectedPrompt>,
): readonly PositionSpan[] | undefined {
  if (beginsAlike(ids, own, spans.at(-1)?.[1] ?? 0)) return spans;
  try {
    for (const earlier of before())
      if (beginsAlike(ids, earlier.ids, earlier.ids.length)) return protectedSpans(named, earlier);
  } catch (cause) {
    if (!KvError.is(cause)) throw cause; // a template may reject what was no prompt
  }
  return undefined;
}
const beginsAlike = (ids: readonly number[], others: readonly number[], length: number): boolean =>
  ids.length >= length && others.slice(0, length).every((id, i) => id === ids[i]);

/** How many of the latest prompts before this one are looked at, after the first. */
const EARLIER = 7;

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
