import type { Sequence } from '@kv/models';
import type { Policy } from '@kv/core';
import type { ScoredToken } from '../protocol/logprobs.ts';
import type { Channel } from './channel.ts';
import type { AnswerLimits, AnswerChoice, TokenEvent } from './choice.ts';
import type { SequencePolicy } from './way.ts';

/** One prompt and the answers that are asked for. */
export interface SequenceRequest {
  readonly ids: readonly number[];
  readonly policy: Policy | undefined;
  readonly way: SequencePolicy;
  readonly answering: AnswerLimits;
  /** Answers over one prompt. */
  readonly n: number;
  /** The prompt's tokens are scored too, with so many likeliest beside each. */
  readonly scorePrompt?: number | undefined;
  /** Characters of the prompt that stand before the answer's in what is given back. */
  readonly offset: number;
  /** Whether it is read as it is said. */
  readonly streamed: boolean;
  /** Aborts once nobody reads the answer, or it has been read. */
  readonly signal: AbortSignal;
  /** Called where its reader is given up: what it does not take goes with its connection. */
  unread(): void;
}

/** What a job came to. */
export interface Usage {
  readonly promptTokens: number;
  readonly cachedTokens: number;
  completionTokens: number;
  keptSlots: number;
  droppedSlots: number;
  /** Whether something had been evicted before the last token of the prompt was scored. */
  scoredEvicted: boolean;
  /** What its events note, such as that a share was too small for what the policy forces. */
  readonly notes: Set<string>;
}

/** What the jobs of a request say as they go. */
export type JobEvent = { readonly job: number } & (
  | { readonly what: 'prompt'; readonly scored: readonly ScoredToken[] }
  | ({ readonly what: 'said' } & TokenEvent)
  | { readonly what: 'end'; readonly usage: Usage }
);

/** A prompt that is waiting, being read, or being answered. */
export interface Job {
  readonly asked: SequenceRequest;
  /** Its place among those of a request, who end together where one fails. */
  readonly index: number;
  readonly events: Channel<JobEvent>;
  ended: boolean;
  readonly since: number;
  /** Bytes that it waits for, or holds while its prompt is read. */
  need: number;
  /** Bytes of what it says, which are promised with those and held until its reader has it. */
  readonly said: number;
  sequence?: Sequence;
  reading?: AsyncGenerator<number, void>;
  usage?: Usage;
  choices: AnswerChoice[];
  /** When its reader fell behind. */
  behind?: number | undefined;
}

export interface SchedulerOptions {
  /** Bytes of all sequences, prefixes, scratch and requests. */
  readonly memory: number;
  /** Most prompts that wait. */
  readonly queue: number;
  /** Most answers that are generated at once. */
  readonly running: number;
  /** Tokens of a prompt that pass between two steps of the others. */
  readonly part: number;
  /** Events that a reader may be behind before its answer waits for it. */
  readonly ahead: number;
  /** Milliseconds that an answer waits for its reader, and that a prompt waits and runs in all. */
  readonly readerMs: number;
  readonly requestMs: number;
}

/** What the scheduler tells those who count. */
export interface SchedulerObserver {
  step?(sequences: number, milliseconds: number): void;
  part?(tokens: number, milliseconds: number): void;
  waited?(milliseconds: number): void;
  failed?(cause: unknown): void;
  /** A sequence held more than was promised to it: this is never so, or a bound is wrong. */
  exceeded?(held: number, promised: number): void;
  ended?(usage: NonNullable<Job['usage']>): void;
}
