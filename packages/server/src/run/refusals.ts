import { Refusal } from '../protocol/refusal.ts';

export const closing = (): Refusal => new Refusal('the server is closing', { status: 503, retryAfter: 1 });

export const noMemory = (): Refusal =>
  new Refusal('there is no more memory for this answer: try again later', { status: 503, retryAfter: 1 });

export const readerTooSlow = (): Refusal => new Refusal('the answer was not read', { status: 408, code: 'timeout' });

export const timedOut = (milliseconds: number): Refusal =>
  new Refusal(`the request took more than ${milliseconds / 1000} seconds`, { status: 408, code: 'timeout' });

export const queueFull = (waiting: number, retryAfter: number): Refusal =>
  new Refusal(`the queue is full, with ${waiting} waiting: try again later`, {
    status: 429,
    code: 'queue_full',
    retryAfter,
  });

/** @param left why the prompt does not go on from a cache */
export const beyondContext = (tokens: number, most: number, left: string | undefined): Refusal =>
  new Refusal(
    `the prompt must fit the model's context of ${most} tokens, got ${tokens}${left === undefined ? '' : `: it would be read again from its start, since ${left}`}; with 'block' a longer one is read block by block`,
    { param: 'block', code: 'context_length_exceeded' },
  );

export const answerTooLarge = (bytes: number, most: number): Refusal =>
  new Refusal(
    `what is said of the prompt and its answers may take ${bytes} bytes, more than the ${most} that requests have here: ask for fewer tokens, choices or logprobs, or for a stream`,
    { param: 'logprobs' },
  );
