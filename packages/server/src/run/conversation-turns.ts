import { createHash } from 'node:crypto';
import { KvError } from '@kv/core';
import { afterAnswer } from '@kv/engine';
import type { ChatMessage, RenderedChat } from '@kv/models';

/** An earlier state of a conversation that a request may go on from. */
export interface ConversationStart {
  /** Digest of all that the model had been given and had answered. */
  readonly digest: string;
  /**
   * Returns the ids of what follows the answer; undefined where the template cannot tell.
   * @param tail what the cache holds after the answer: one of `tails`, or nothing
   */
  rest(tail: string): Promise<readonly number[] | undefined>;
}

/** A request as a conversation: what it goes on from, and what its answer makes of it. */
export interface ConversationTurns {
  /** The latest first. */
  readonly starts: readonly ConversationStart[];
  /** The digest of all its messages. */
  readonly whole: string;
  /** Stop texts that belong between the answer and what follows, such as the end of a line. */
  readonly tails: readonly string[];
  /** Returns the digests of the conversation with this answer, as a client may send it back. */
  after(text: string): readonly string[];
}

/** How messages become text. */
export interface TurnText {
  /** Renders messages; undefined for a model without a chat template, whose messages are lines. */
  readonly render?: ((messages: readonly ChatMessage[]) => RenderedChat) | undefined;
  /** Joins messages as lines. */
  readonly lines: (messages: readonly ChatMessage[]) => string;
  /** Reads what follows an answer. */
  read(rest: RenderedChat): Promise<readonly number[]>;
  /** What else the text depends on, such as tools and the template's variables. */
  readonly given?: unknown;
  /** Returns the messages that an answer's text becomes, in the forms that clients send back. @defaultValue its text */
  answers?(text: string): readonly ChatMessage[];
}

/**
 * Returns a conversation's turns. What follows an answer does not depend on its text, so only that part is rendered and
 * read, as in `Chat`: the cache goes on with what the model has written, however a template would render it again.
 */
export function conversationTurns(
  messages: readonly ChatMessage[],
  { render, lines, read, given, answers = (content) => [{ role: 'assistant', content }] }: TurnText,
): ConversationTurns {
  const starts: ConversationStart[] = [];
  let digest = sha256(JSON.stringify([render !== undefined, given ?? null]));
  for (const [i, message] of messages.entries()) {
    digest = joined(digest, message);
    if (message.role === 'assistant' && i + 1 < messages.length)
      starts.unshift({
        digest,
        async rest(tail) {
          const rest = render ? afterTemplate(messages, i, render) : afterLine(messages, i, lines, tail);
          return rest && (await read(rest));
        },
      });
  }
  return {
    starts,
    whole: digest,
    tails: render ? [] : ['\n'],
    after: (text) => [...new Set(answers(text).map((answer) => joined(digest, answer)))],
  };
}

/** Returns what a template writes after the answer in message `i`; undefined for one that wants a call before its result. */
function afterTemplate(
  messages: readonly ChatMessage[],
  i: number,
  render: NonNullable<TurnText['render']>,
): RenderedChat | undefined {
  try {
    return afterAnswer(messages, i, render);
  } catch (cause) {
    if (KvError.is(cause)) return undefined;
    throw cause;
  }
}

/** Returns the lines after that of the answer in message `i`. */
function afterLine(messages: readonly ChatMessage[], i: number, lines: TurnText['lines'], tail: string): RenderedChat {
  const text = lines(messages).slice(lines(messages.slice(0, i + 1)).length + tail.length);
  return { text, untrusted: [[0, text.length]] };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Extends the digest of a conversation. */
const joined = (digest: string, message: ChatMessage): string => sha256(digest + JSON.stringify(comparable(message)));

/** Returns a message in one form, without the ids of its calls, which the server has made up. */
function comparable({ role, content, ...rest }: ChatMessage): object {
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [
      name,
      name === 'tool_calls' && Array.isArray(value)
        ? value.map((call) => (typeof call === 'object' && call !== null ? { ...call, id: undefined } : call))
        : value,
    ]);
  return [role, content, fields];
}
