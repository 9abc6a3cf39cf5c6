import { createHash } from 'node:crypto';
import { numberSource, parseExactJson } from '@kv/models';
import type { ChatMessage } from '@kv/models';

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
  /** Stop texts that belong between an answer and what follows, such as the end of a line. */
  readonly tails: readonly string[];
  /** Bytes of its messages, which are held until the answers end. */
  readonly bytes: number;
  /** Returns the digest of the conversation with this answer. */
  after(answer: ChatMessage): string;
}

/** What a conversation is besides its messages. */
interface TurnReading extends Pick<ConversationTurns, 'tails'> {
  /** All else that its text depends on, such as tools and the template's variables. */
  readonly given: unknown;
  /** Returns the ids of what follows the answer in message `i`, see `ConversationStart`. */
  rest(i: number, tail: string): Promise<readonly number[] | undefined>;
}

/** Returns a conversation's turns, by digests that are chained from message to message. */
export function conversationTurns(
  messages: readonly ChatMessage[],
  { given, tails, rest }: TurnReading,
): ConversationTurns {
  const starts: ConversationStart[] = [];
  let digest = sha256(JSON.stringify(given ?? null)),
    bytes = 0;
  for (const [i, message] of messages.entries()) {
    digest = joined(digest, message);
    bytes += 256 + 2 * message.content.length + 4 * (JSON.stringify(message.tool_calls)?.length ?? 0);
    if (message.role === 'assistant' && i + 1 < messages.length)
      starts.unshift({ digest, rest: (tail) => rest(i, tail) });
  }
  return { starts, whole: digest, tails, bytes, after: (answer) => joined(digest, answer) };
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Extends the digest of a conversation. */
const joined = (digest: string, message: ChatMessage): string => sha256(digest + JSON.stringify(comparable(message)));

/** Returns a message in one form, without the ids of its calls, which the server has made up. */
function comparable({ role, content, ...rest }: ChatMessage): unknown {
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => [name, name === 'tool_calls' && Array.isArray(value) ? value.map(called) : value]);
  return [role, content, fields];
}

/** Returns the name and the arguments of a call; clients may write their JSON again, with its names in another order. */
function called(call: unknown): unknown {
  const { function: of } = call as { readonly function?: { readonly name?: unknown; readonly arguments?: unknown } };
  return [of?.name, typeof of?.arguments === 'string' ? parsed(of.arguments) : inOrder(of?.arguments)];
}

/** Returns JSON in one form; a text that is none as it is. */
function parsed(text: string): unknown {
  try {
    return inOrder(parseExactJson(text));
  } catch {
    return text;
  }
}

/** Returns a value whose names are in one order, and its integers that a number cannot hold with their digits. */
function inOrder(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).map(([name, one]): [string, unknown] => {
    const source = numberSource(value, name),
      digits = source !== undefined && !Number.isSafeInteger(one) && /^-?\d+$/.test(source);
    return [name, digits ? { source } : inOrder(one)];
  });
  return Array.isArray(value) ? fields.map(([, one]) => one) : { fields: fields.sort(([a], [b]) => (a < b ? -1 : 1)) };
}
