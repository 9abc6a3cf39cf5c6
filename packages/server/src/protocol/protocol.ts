import type { Budget, Tokenizer } from '@kv/models';
import type { TSchema } from 'typebox';
import type { AnswerEvent } from '../run/answer-event.ts';
import type { PromptUsage } from '../run/job.ts';
import type { Ask, AskTerms } from './ask.ts';
import type { Refusal } from './refusal.ts';

/** Writes a server-sent event that has its name in its data too. */
export const eventFrame = (type: string, data: object = {}): string =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`;

/** An answer to be written: what was asked, and what comes of it. */
export interface Answer {
  readonly asked: AskTerms;
  readonly events: AsyncIterable<AnswerEvent>;
  /** The number of choices: `n` of each prompt, in the order of the prompts. */
  readonly choices: number;
  /** The name of the model that answers. */
  readonly model: string;
  readonly tokenizer: Tokenizer;
  /** The policy of the caches, as text. */
  readonly policy: string;
  readonly budget: Budget | undefined;
  /** What the prompts were read from, of those whose reading has begun: one prompt's always has. */
  readonly read: PromptUsage;
  /** Tokens of the prompts that no eviction drops. */
  readonly protectedTokens: number;
}

/** A protocol: a route, the fields of its requests, and how its answers and errors are written. */
export interface Protocol {
  readonly path: string;
  /** The schema of a body; a refusal quotes the `description` of the field that does not fit. */
  readonly body: TSchema;
  /** Reads a body that fits the schema. @throws Refusal naming a field that cannot be */
  ask(body: unknown): Ask | Promise<Ask>;
  /** Writes a whole answer. @throws Refusal where a job failed */
  whole(answer: Answer): Promise<object>;
  /** Writes an answer as server-sent events; a failure is one more of them. */
  frames(answer: Answer): AsyncGenerator<string, void>;
  error(refusal: Refusal): object;
}
