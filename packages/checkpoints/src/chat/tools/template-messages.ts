import { KvError } from '@kv/core';
import type { ChatMessage, ChatTemplate } from '../chat-template.ts';
import { MarkedText } from '../marked-text.ts';
import { parseExactJson, writeExactJson } from '../../read/json-numbers.ts';
import { SHORT_ID } from './call-syntax.ts';
import { onceEach } from './once-each.ts';
import { traitsOf, type TemplateTraits } from './recognise.ts';

/** One turn as clients of OpenAI's form keep it. */
export interface ConversationMessage {
  /** Role, such as `'user'`. */
  readonly role: string;
  /** The text of the turn, whole or in parts; it may be missing next to calls. */
  readonly content?: string | readonly TextPart[] | null;
  readonly [field: string]: unknown;
}
/** A part of a turn's text. */
export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

/** A call in a message, in OpenAI's form. */
interface MessageCall {
  readonly id?: string;
  readonly function: { readonly name: string; readonly arguments?: unknown };
}

/**
 * Returns a conversation in OpenAI's form as a chat template reads it: parts of a text as lines of one; reasoning
 * (`reasoning_content`) where the template reads it; calls of functions and their results (`tool_calls`, `tool`,
 * `tool_call_id`) with arguments as objects or as JSON text, results after their calls and in their order, with the name of
 * the function; several calls as several messages, and calls in the text, for templates that write none otherwise; system
 * messages at the start as one, for templates that write one alone. Other messages are returned as they are.
 * @throws KvError naming the message that the template would leave out, a part that is no text, a call without a name, a
 * result without its call, a call without its result that more than one answer follows, or arguments that are not a JSON
 * object
 */
export function templateMessages(
  template: ChatTemplate,
  conversation: readonly ConversationMessage[],
): readonly ChatMessage[] {
  const messages = conversation.map(inOneText);
  expectSystem(template, messages);
  const callsOf = messages.map(callsIn);
  if (messages.every(({ role }, at) => role !== 'tool' && callsOf[at]?.length === 0))
    return oneSystem(
      template,
      messages.map((message) => withThoughts(message, template)),
    );
  const traits = traitsOf(template),
    made: ChatMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as ChatMessage,
      calls = callsOf[at] as readonly MessageCall[];
    if (message.role === 'tool')
      throw new KvError(`messages[${at}].tool_call_id`, 'expected a call of this id in the answer before, got none');
    if (calls.length === 0) {
      made.push(withThoughts(message, template));
      continue;
    }
    expectWritten(traits, at);
    const results: ChatMessage[] = [];
    while (messages[at + 1 + results.length]?.role === 'tool')
      results.push(messages[at + 1 + results.length] as ChatMessage);
    made.push(...turnOf(withThoughts(message, template, true), calls, results, at, traits, made.length));
    at += results.length;
  }
  return oneSystem(template, made);
}

const isSystem = ({ role }: ChatMessage): boolean => role === 'system' || role === 'developer';
/** Counts the system messages that a conversation begins with. */
const leading = (messages: readonly ChatMessage[]): number => {
  const first = messages.findIndex((one) => !isSystem(one));
  return first < 0 ? messages.length : first;
};

/** Whether a template writes two system messages at the start, and one later; found once. */
const systemsOf = onceEach((template) => {
  const one = (role: string, content: string): ChatMessage => ({ role, content: `probe ${content}` }),
    first = one('system', 'start'),
    more = one('system', 'more');
  return {
    two: writesAll(template, [first, more, one('user', 'question')]),
    later: writesAll(template, [first, one('user', 'question'), one('assistant', 'answer'), more, one('user', 'last')]),
  };
});

/** @throws KvError for a system message after the start, where the template leaves it out or rejects it */
function expectSystem(template: ChatTemplate, messages: readonly ChatMessage[]): void {
  const start = leading(messages),
    later = messages.findIndex((one, i) => i > start && isSystem(one));
  if (later >= 0 && !systemsOf(template).later)
    throw new KvError(
      `messages[${later}].role`,
      `expected system messages at the start alone, since the chat template of this model writes no later ones, got '${messages[later]?.role}': give its text there, or as a message of the role user`,
    );
}

/** Returns messages whose system messages at the start are one, where the template would not write all of them. */
function oneSystem(template: ChatTemplate, messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const start = leading(messages);
  if (start < 2 || systemsOf(template).two) return messages;
  const texts = messages.slice(0, start).flatMap(({ content }) => (content === '' ? [] : [content]));
  return [{ ...(messages[0] as ChatMessage), content: texts.join('\n\n') }, ...messages.slice(start)];
}

/** Returns a message whose content is one text. @throws KvError for a part that is none */
function inOneText(message: ConversationMessage, at: number): ChatMessage {
  const { content } = message;
  if (typeof content === 'string') return message as ChatMessage;
  const parts: unknown = content ?? [];
  if (!Array.isArray(parts))
    throw new KvError(`messages[${at}].content`, `expected a text or its parts, got ${shown(content)}`);
  const texts = parts.map((part: unknown, i) => {
    const { type, text } = Object(part) as Record<string, unknown>;
    if (type === 'text' && typeof text === 'string') return text;
    throw new KvError(
      `messages[${at}].content[${i}]`,
      `expected { type: 'text', text }, since models here read text alone, got ${shown(part)}`,
    );
  });
  return { ...message, content: texts.filter((text) => text !== '').join('\n') };
}

/** Returns a message's calls. @throws KvError for what is no list of calls with names */
function callsIn({ tool_calls: calls }: ChatMessage, at: number): readonly MessageCall[] {
  if (calls === undefined || calls === null) return [];
  if (!Array.isArray(calls))
    throw new KvError(`messages[${at}].tool_calls`, `expected a list of calls, got ${shown(calls)}`);
  for (const [i, call] of calls.entries()) {
    const { id, function: called } = Object(call) as Record<string, unknown>;
    if ((id !== undefined && typeof id !== 'string') || typeof Object(called).name !== 'string')
      throw new KvError(
        `messages[${at}].tool_calls[${i}]`,
        `expected { id, function: { name, arguments } }, got ${shown(call)}`,
      );
  }
  return calls as readonly MessageCall[];
}

const shown = (value: unknown): string => JSON.stringify(value)?.slice(0, 60) ?? 'none';

/** @throws KvError if the template writes no calls or no results */
function expectWritten({ syntax, writesResults }: TemplateTraits, at: number): void {
  if (syntax === undefined)
    throw new KvError(
      `messages[${at}].tool_calls`,
      'the chat template of this model writes no calls of functions that are known here; give one that does: chatTemplate of loadModel, --chat-template',
    );
  if (!writesResults)
    throw new KvError(
      `messages[${at}].tool_calls`,
      'the chat template of this model writes no messages of the role tool',
    );
}

/** Returns an answer with calls, and the results that follow it. */
function turnOf(
  message: ChatMessage,
  calls: readonly MessageCall[],
  results: readonly ChatMessage[],
  at: number,
  traits: TemplateTraits,
  before: number,
): readonly ChatMessage[] {
  const answers = inOrder(calls, results, at),
    given = calls.map(({ id, function: { name, arguments: text = '{}' } }, i) => ({
      id: id === undefined || (traits.shortIds && !SHORT_ID.test(id)) ? `c${String(before + i).padStart(8, '0')}` : id,
      name,
      arguments: objectOf(text, `messages[${at}].tool_calls[${i}].function.arguments`),
    })),
    result = (i: number): readonly ChatMessage[] =>
      (answers[i] ?? []).map((one) => ({ ...one, name: given[i]?.name, tool_call_id: given[i]?.id })),
    { tool_calls: _, ...rest } = message,
    said = rest as ChatMessage;
  if (!traits.writesCalls && traits.syntax !== 'harmony') {
    const written = traits.syntax?.write?.(given.map(({ id: _, ...call }) => call)) ?? [];
    return [
      { ...said, content: new MarkedText([message.content, ...written]) as unknown as string },
      ...given.flatMap((_, i) => result(i)),
    ];
  }
  const written = given.map(({ id, name, arguments: value }) => ({
    id,
    type: 'function',
    function: { name, arguments: traits.objects ? value : writeExactJson(value) },
  }));
  if (traits.writesSeveral) return [{ ...said, tool_calls: written }, ...given.flatMap((_, i) => result(i))];
  return written.flatMap((call, i) => [
    { ...(i === 0 ? said : { role: said.role, content: '' }), tool_calls: [call] },
    ...result(i),
  ]);
}

/** Gives a message's reasoning where the template reads it. */
function withThoughts(message: ChatMessage, template: ChatTemplate, called = false): ChatMessage {
  const { reasoning_content: thought, ...rest } = message,
    { content } = message;
  if (typeof thought !== 'string' || thought === '') return message;
  const { syntax } = traitsOf(template);
  // it writes either before a call, in the same channel
  if (syntax === 'harmony' && called)
    return { ...rest, content: '', thinking: content === '' ? thought : `${thought}\n${content}` } as ChatMessage;
  if (typeof syntax === 'object' && syntax.name === 'lfm2') return { ...rest, thinking: thought } as ChatMessage;
  if (!readsBlocks(template)) return message;
  const blocks = [
    { type: 'thinking', thinking: thought },
    ...(content === '' ? [] : [{ type: 'text', text: content }]),
  ];
  return { ...rest, content: blocks as unknown as string } as ChatMessage;
}

/** Whether a template reads reasoning as a block of the content, as Ministral's do; found once. */
const readsBlocks = onceEach((template) => {
  const blocks = [
    { type: 'thinking', thinking: 'probe thought' },
    { type: 'text', text: 'probe answer' },
  ];
  return writesAll(
    template,
    [
      { role: 'user', content: 'probe question' },
      { role: 'assistant', content: blocks as unknown as string },
      { role: 'user', content: 'probe last' },
    ],
    ['[THINK]probe thought[/THINK]', 'probe answer'],
  );
});

/** Whether a template writes messages, with all of these texts. */
function writesAll(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  texts: readonly string[] = messages.map(({ content }) => content),
): boolean {
  // some take no conversation without functions
  return [undefined, [PROBE]].some((tools) => {
    try {
      const text = template(messages, { ...(tools && { tools }) });
      return texts.every((one) => text.includes(one));
    } catch {
      return false;
    }
  });
}
const PROBE = {
  type: 'function',
  function: { name: 'probe', description: 'probe', parameters: { type: 'object', properties: {}, required: [] } },
};

/** Returns the results of each call. @throws KvError for a result of no call, or a second one */
function inOrder(
  calls: readonly MessageCall[],
  results: readonly ChatMessage[],
  at: number,
): readonly (readonly ChatMessage[])[] {
  const answers: ChatMessage[][] = calls.map(() => []);
  for (const [i, result] of results.entries()) {
    const id = result.tool_call_id,
      index =
        id === undefined ? answers.findIndex(({ length }) => length === 0) : calls.findIndex((call) => call.id === id);
    if (index < 0 || (answers[index] as ChatMessage[]).length > 0)
      throw new KvError(
        `messages[${at + 1 + i}].tool_call_id`,
        `expected a call of the answer before that has no result yet, got ${shown(id)}`,
      );
    (answers[index] as ChatMessage[]).push(result);
  }
  return answers;
}

function objectOf(given: unknown, where: string): Readonly<Record<string, unknown>> {
  const value = typeof given === 'string' ? parsed(given === '' ? '{}' : given) : given;
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw new KvError(where, `expected JSON of an object, got ${shown(given)}`);
}

function parsed(text: string): unknown {
  try {
    return parseExactJson(text);
  } catch {
    return undefined;
  }
}
