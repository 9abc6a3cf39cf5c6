import { randomUUID } from 'node:crypto';
import { KvError } from '@kv/core';
import { afterAnswer } from '@kv/engine';
import type { AnswerReader, ChatMessage, RenderedChat } from '@kv/models';
import { TextJoin } from './text-join.ts';

/** Returns the messages as the template reads them; each of their turns stands alone. */
type Normal = (messages: readonly ChatMessage[]) => readonly ChatMessage[];

/**
 * Returns what the template writes after the answer in message `i`, whose text the cache holds as the model has written
 * it; undefined where the template writes that answer in several messages, or what follows it not without its calls.
 * @param whole the text of all messages, which ends with what is returned
 */
export function afterTurn(
  messages: readonly ChatMessage[],
  i: number,
  normal: Normal,
  render: (messages: readonly ChatMessage[]) => RenderedChat,
  whole: string,
): RenderedChat | undefined {
  const results = messages.slice(i + 1).findIndex(({ role }) => role !== 'tool'),
    end = results < 0 ? messages.length : i + 1 + results;
  try {
    const all = normal(messages),
      at = normal(messages.slice(0, i)).length,
      turn = normal(messages.slice(0, end)).slice(at);
    if (turn[0]?.role !== 'assistant' || turn.slice(1).some(({ role }) => role === 'assistant')) return undefined;
    const rest = afterAnswer(all, at, render);
    return rest && whole.endsWith(rest.text) && readsResults(all, at, turn.length, render) ? rest : undefined;
  } catch (cause) {
    if (KvError.is(cause)) return undefined;
    throw cause;
  }
}

/** Whether the template writes each result of the turn at `at` without the calls of the turn. */
function readsResults(
  messages: readonly ChatMessage[],
  at: number,
  length: number,
  render: (messages: readonly ChatMessage[]) => RenderedChat,
): boolean {
  const mark = randomUUID(),
    marked = messages.map((one, i) => (i > at && i < at + length ? { ...one, content: `${mark} ${i}.` } : one)),
    text = length === 1 ? '' : (afterAnswer(marked, at, render)?.text ?? '');
  return marked.slice(at + 1, at + length).every(({ content }) => text.includes(content));
}

/** Returns the lines after that of the answer in message `i`, of which the cache may hold the end, `tail`. */
export function afterLine(
  messages: readonly ChatMessage[],
  i: number,
  lines: (messages: readonly ChatMessage[]) => string,
  tail: string,
): RenderedChat {
  const text = lines(messages).slice(lines(messages.slice(0, i + 1)).length + tail.length);
  return { text, untrusted: [[0, text.length]] };
}

/** Returns the messages that an answer's text is, as clients send it back: with its reasoning, and without. */
export function answerMessages(text: string, reader?: AnswerReader): readonly ChatMessage[] {
  if (!reader) return [{ role: 'assistant', content: text }];
  const said = { text: '', reasoning: '' },
    join = new TextJoin(),
    calls: { readonly name: string; arguments: string }[] = [];
  for (const part of [...reader.push(text), ...reader.end()])
    if (part.what === 'call') {
      join.add('call', part.name);
      calls.push({ name: part.name, arguments: '' });
    } else if (part.what === 'arguments') calls[part.call].arguments += part.text;
    else said[part.what] += join.add(part.what, part.text);
  const message = {
    role: 'assistant',
    content: said.text,
    ...(calls.length > 0 && { tool_calls: calls.map((call) => ({ function: call })) }),
  };
  return said.reasoning === '' ? [message] : [message, { ...message, reasoning_content: said.reasoning }];
}
