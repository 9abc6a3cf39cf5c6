import type { PositionSpan } from '@kv/core';
import type { CacheUsage, Sequence } from '@kv/models';
import type { ScoredToken } from '../protocol/logprobs.ts';
import type { Channel } from './channel.ts';
import type { AnswerLimits, AnswerChoice, TokenEvent } from './answer-choice.ts';
import type { ConversationRequest, ConversationState, FoundConversation, KeptConversation } from './conversations.ts';
import type { ConversationStore } from './conversation-store.ts';

/** One prompt and the answers requested for it. */
export interface SequenceRequest extends ConversationRequest {
  readonly limits: AnswerLimits;
  /** Notes on what was asked. */
  readonly notes?: readonly string[] | undefined;
  /** Number of answers to generate. */
  readonly n: number;
  /** Number of most likely tokens to report for each prompt token; absent if the prompt is not scored. */
  readonly scorePrompt?: number | undefined;
  /** Characters of tools and schemas, which are held until the answers end. @defaultValue 0 */
  readonly schemaBytes?: number | undefined;
  /** Characters of the echoed prompt that precede the answer in the response. */
  readonly offset: number;
  /** Whether the response is streamed. */
  readonly streamed: boolean;
  /** Aborts once the client is gone or has received the whole answer. */
  readonly signal: AbortSignal;
  /** Called when a slow reader is dropped; what it has not received ends with its connection. */
  unread(): void;
}

/** Token and slot counts of a finished job. */
export interface Usage {
  /** Tokens that the answers go on from, `tokensReused` and `tokensRead` together. */
  readonly promptTokens: number;
  /** Tokens of the prompt that were in a cache already, and those that were read. */
  readonly tokensReused: number;
  readonly tokensRead: number;
  /** Tokens of all answers' sequences that no layer and head holds any more. */
  tokensDropped: number;
  completionTokens: number;
  keptSlots: number;
  droppedSlots: number;
  /** The bytes of its answers' caches when they ended, and the most that one of them held. */
  cache: CacheUsage;
  /** Whether anything had been evicted before the last prompt token was scored. */
  scoredEvicted: boolean;
  /** Notes of its events, such as a share too small for the slots that the policy forces. */
  readonly notes: Set<string>;
}

/** What a prompt is read from, known when its reading begins. */
export type PromptUsage = Pick<Usage, 'promptTokens' | 'tokensReused' | 'tokensRead'>;

/** Events that the jobs of a request emit. */
export type JobEvent = { readonly job: number } & (
  | { readonly what: 'begin'; readonly usage: PromptUsage }
  | { readonly what: 'prompt'; readonly scored: readonly ScoredToken[] }
  | ({ readonly what: 'token' } & TokenEvent)
  | { readonly what: 'end'; readonly usage: Usage }
);

/** A prompt that is queued, being read, or being answered. */
export interface Job {
  readonly request: SequenceRequest;
  /** Index among the jobs of its request, which all fail together. */
  readonly index: number;
  readonly events: Channel<JobEvent>;
  ended: boolean;
  readonly since: number;
  /** Cache bytes that it waits for, or has reserved while its prompt is read. */
  need: number;
  /** Bytes of its events, reserved together with `need` and held until they are read. */
  readonly unreadBytes: number;
  /** Where the conversation is that it goes on from; `undefined` where there is none, absent until it was looked for. */
  found?: FoundConversation | undefined;
  looking?: 'now' | 'done';
  /** The conversation, the tokens that follow it, and the positions that the request protects, once they are found. */
  from?: {
    readonly state: ConversationState;
    readonly ids: readonly number[];
    protects?: readonly PositionSpan[];
  };
  /** The cache at whose end it began. */
  parent?: KeptConversation | undefined;
  sequence?: Sequence;
  /** Tokens of its sequence once its prompt is read. */
  length?: number;
  /** First tokens of its sequence that were read in whole parts. */
  inParts?: number;
  /** Settles once other servers can go on from its answers that have ended; absent where there are none. */
  stored?: Promise<unknown> | undefined;
  reading?: AsyncGenerator<number, void>;
  usage?: Usage;
  choices: AnswerChoice[];
  /** When its reader began to lag, in milliseconds of `performance.now()`. */
  laggingSince?: number | undefined;
}

export interface SchedulerOptions {
  /** Bytes for all sequences, conversations, scratch and requests together. */
  readonly memory: number;
  /** Maximum number of queued prompts. */
  readonly queue: number;
  /** Maximum number of answers generated at once. */
  readonly running: number;
  /** Prompt tokens read between two decoding steps of other answers. */
  readonly part: number;
  /** Unread events at which an answer pauses for its reader. */
  readonly ahead: number;
  /** Milliseconds that an answer waits for its reader. */
  readonly readerMs: number;
  /** Milliseconds that a prompt may wait and run in total. */
  readonly requestMs: number;
  /** Where conversations lie that memory has no room for. @defaultValue they are dropped */
  readonly conversations?: ConversationStore | undefined;
}

/** Callbacks for metrics. */
export interface SchedulerObserver {
  step?(sequences: number, milliseconds: number): void;
  part?(tokens: number, milliseconds: number): void;
  waited?(milliseconds: number): void;
  failed?(cause: unknown): void;
  /** A sequence used more bytes than were reserved for it, which shows that a bound is wrong. */
  exceeded?(held: number, promised: number): void;
  /** The store of conversations failed, or held a damaged one; the request goes on without it. */
  storeFailed?(cause: unknown): void;
  ended?(usage: NonNullable<Job['usage']>): void;
}
