import { KvError } from '@kv/core';
import type { ChatMessage, ChatTemplate } from '../chat-template.ts';
import { MarkedText } from '../marked-text.ts';
import { parseExactJson, writeExactJson } from '../../read/json-numbers.ts';
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
 * Returns a conversation in OpenAI's form as a chat template reads it: parts of a text as one; calls of functions and
 * their results (`tool_calls`, `tool`, `tool_call_id`) with arguments as objects or as JSON text, results after their
 * calls and in their order, with the name of the function; several calls as several messages, and calls in the text, for
 * templates that write none otherwise. Other messages are returned as they are.
 * @throws KvError naming the message that the template would leave out, a part that is no text, a call without a name, a
 * result without its call, a call without its result that more than one answer follows, or arguments that are not a JSON
 * object
 */
export function templateMessages(
  template: ChatTemplate,
  conversation: readonly ConversationMessage[],
): readonly ChatMessage[] {
  const messages = conversation.map(inOneText);
  const callsOf = messages.map(callsIn);
  if (messages.every(({ role }, at) => role !== 'tool' && callsOf[at]?.length === 0)) return messages;
  const traits = traitsOf(template),
    made: ChatMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as ChatMessage,
      calls = callsOf[at] as readonly MessageCall[];
    if (message.role === 'tool')
      throw new KvError(`messages[${at}].tool_call_id`, 'expected a call of this id in the answer before, got none');
    if (calls.length === 0) {
      made.push(message);
      continue;
    }
    expectWritten(traits, at);
    const results: ChatMessage[] = [];
    while (messages[at + 1 + results.length]?.role === 'tool')
      results.push(messages[at + 1 + results.length] as ChatMessage);
    made.push(...turnOf(message, calls, results, at, traits, made.length));
    at += results.length;
  }
  return made;
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
  return { ...message, content: texts.join('') };
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
      id: traits.shortIds || id === undefined ? `c${String(before + i).padStart(8, '0')}` : id,
      name,
      arguments: objectOf(text, `messages[${at}].tool_calls[${i}].function.arguments`),
    })),
    result = (i: number): readonly ChatMessage[] =>
      (answers[i] ?? []).map((one) => ({ ...one, name: given[i]?.name, tool_call_id: given[i]?.id })),
    { tool_calls: _, ...rest } = message,
    said = withThoughts(rest as ChatMessage, traits);
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

/** Gives a message's reasoning under the name that the template reads. */
function withThoughts(message: ChatMessage, { syntax }: TemplateTraits): ChatMessage {
  const { reasoning_content: thought, ...rest } = message;
  const renamed = syntax === 'harmony' ? message.content === '' : typeof syntax === 'object' && syntax.name === 'lfm2';
  return typeof thought === 'string' && renamed ? ({ ...rest, thinking: thought } as ChatMessage) : message;
}

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
