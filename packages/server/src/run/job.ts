import type { CacheUsage, Sequence } from '@kv/models';
import type { Policy, Span } from '@kv/core';
import type { ScoredToken } from '../protocol/logprobs.ts';
import type { Channel } from './channel.ts';
import type { AnswerLimits, AnswerChoice, TokenEvent } from './answer-choice.ts';
import type { SequencePolicy } from './sequence-policy.ts';

/** One prompt and the answers requested for it. */
export interface SequenceRequest {
  readonly ids: readonly number[];
  readonly policy: Policy | undefined;
  readonly sequencePolicy: SequencePolicy;
  /** Returns the positions that no eviction may drop, of the ids that its cache holds. */
  readonly protect?: ((ids: readonly number[]) => readonly Span[]) | undefined;
  readonly limits: AnswerLimits;
  /** Notes on what was asked. */
  readonly notes?: readonly string[] | undefined;
  /** Number of answers to generate. */
  readonly n: number;
  /** Number of most likely tokens to report for each prompt token; absent if the prompt is not scored. */
  readonly scorePrompt?: number | undefined;
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
  readonly promptTokens: number;
  /** Tokens of the prompt that a cache held already, and the others, which were read. */
  readonly tokensReused: number;
  readonly tokensRead: number;
  /** Tokens that no layer and KV head of an answer's cache held any more when it ended. */
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

/** Events that the jobs of a request emit. */
export type JobEvent = { readonly job: number } & (
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
  sequence?: Sequence;
  reading?: AsyncGenerator<number, void>;
  usage?: Usage;
  choices: AnswerChoice[];
  /** When its reader began to lag, in milliseconds of `performance.now()`. */
  laggingSince?: number | undefined;
}

export interface SchedulerOptions {
  /** Bytes for all sequences, prefixes, scratch and requests together. */
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
}

/** Callbacks for metrics. */
export interface SchedulerObserver {
  step?(sequences: number, milliseconds: number): void;
  part?(tokens: number, milliseconds: number): void;
  waited?(milliseconds: number): void;
  failed?(cause: unknown): void;
  /** A sequence used more bytes than were reserved for it, which shows that a bound is wrong. */
  exceeded?(held: number, promised: number): void;
  ended?(usage: NonNullable<Job['usage']>): void;
}
