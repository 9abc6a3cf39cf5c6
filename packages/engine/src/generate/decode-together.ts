import { KvError } from '@kv/core';
import { settleOwn, showValue } from '@kv/core/engine';
import { expectSequence } from '../expect-given.ts';
import { DECODE } from '../options.ts';
import type { DecodeOptions, Finish } from '../options.ts';
import type { Sequence } from '../sequence/sequence.ts';
import { stepTogether } from '../sequence/step-together.ts';
import type { SequenceStep } from '../sequence/step-together.ts';
import { decodeWith } from './generate.ts';

/** What a sequence generated. */
export interface Continuation {
  readonly text: string;
  readonly tokens: readonly number[];
  /** Why the generation ended. */
  readonly finish: Finish;
}

/** A step that waits for those of the other sequences. */
interface WaitingStep extends SequenceStep {
  done(): void;
  fail(cause: unknown): void;
}

/**
 * Generates from several prefilled sequences at once, each as `decode` does: their steps are batched (`stepTogether`), so
 * that the model's weights are read once for all of them. What a sequence generates does not depend on the others.
 *
 * @returns a settled result per sequence, in order: one that fails does not hold the others up
 */
export async function decodeTogether(
  sequences: readonly Sequence[],
  options: DecodeOptions = {},
): Promise<readonly PromiseSettledResult<Continuation>[]> {
  if (!Array.isArray(sequences))
    throw new KvError('decodeTogether', `expected a list of sequences, got ${showValue(sequences)}`);
  for (const sequence of sequences) expectSequence('decodeTogether', sequence);
  const settled = { ...settleOwn('decode', DECODE, options), inFlight: 1 };
  let steps: WaitingStep[] = [],
    deciding = 0;
  /** One more sequence waits with its step, or has none in this round; the last one runs those of all. */
  const decided = async (): Promise<void> => {
    if (--deciding > 0) return;
    const all = steps;
    steps = [];
    const failures = await stepTogether(all);
    for (const [i, { done, fail }] of all.entries()) {
      const failure = failures[i];
      if (failure) fail(failure);
      else done();
    }
  };
  const running = sequences.map((sequence) => {
    const decoded = { text: '', tokens: [] as number[] };
    let stepped = false;
    const step = (token: number, every?: number): Promise<void> =>
      new Promise((done, fail) => {
        stepped = true;
        steps.push({ sequence, token, every, done, fail });
        void decided();
      });
    const chunks = decodeWith(sequence, settled, step, ({ token, text }) => {
      if (token !== undefined) decoded.tokens.push(token);
      decoded.text += text;
    });
    return {
      decoded,
      /** Runs until the next token, or to the end: returns why it ended. */
      async round(): Promise<Finish | undefined> {
        stepped = false;
        try {
          const next = await chunks.next();
          return next.done ? next.value : undefined;
        } finally {
          if (!stepped) await decided();
        }
      },
    };
  });
  const results: PromiseSettledResult<Continuation>[] = [];
  for (let alive = [...running.keys()]; alive.length > 0; alive = alive.filter((i) => results[i] === undefined)) {
    deciding = alive.length;
    const rounds = await Promise.allSettled(alive.map((i) => running[i].round()));
    for (const [n, round] of rounds.entries()) {
      const i = alive[n],
        { decoded } = running[i];
      if (round.status === 'rejected') results[i] = round;
      else if (round.value) results[i] = { status: 'fulfilled', value: { ...decoded, finish: round.value } };
    }
  }
  return results;
}
