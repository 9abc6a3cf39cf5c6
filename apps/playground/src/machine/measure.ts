import type { Policy } from '@kv/core';
import { decode, Sequence, type Budget, type CacheForm, type Model } from '@kv/models';

/** Tokens that are decoded after each prompt. */
export const STEPS = 32;

/** One way of running a prompt. */
export interface MeasuredCase {
  readonly ids: readonly number[];
  readonly cache: CacheForm | undefined;
  /** The full cache without one. */
  readonly retention?: { readonly policy: Policy; readonly budget: Budget };
}
interface Run {
  /** Tokens a second. */
  readonly prefill: number;
  readonly decode: number;
  readonly slots: number;
  readonly bytes: number;
  readonly form: CacheForm;
}

/**
 * Returns the medians of several runs of a prompt. Not to be stopped but by ending the worker: a signal would let the
 * event loop in after every token, and browsers let it wait there.
 */
export async function measure(model: Model, measured: MeasuredCase, repeats: number): Promise<Run> {
  const runs: Run[] = [];
  while (runs.length < repeats) runs.push(await run(model, measured));
  return {
    ...runs[0], // slots and bytes are the same in every run
    prefill: median(runs.map(({ prefill }) => prefill)),
    decode: median(runs.map(({ decode }) => decode)),
  };
}

/** Prefills a prompt, which ends with the first token, and decodes `STEPS` more. */
export async function run(model: Model, { ids, cache: asked, retention }: MeasuredCase): Promise<Run> {
  const sequence = new Sequence(model, undefined, { cache: asked });
  try {
    const start = performance.now();
    await sequence.prefill(ids, retention);
    const { slots, cache } = sequence.memory,
      rows = slots.lengths().flat(),
      held = {
        slots: rows.reduce((sum, count) => sum + count, 0) / rows.length,
        bytes: cache.liveBytes,
        form: cache.form,
      };
    const at: number[] = [];
    for await (const { token } of decode(sequence, { maxNewTokens: STEPS + 1, stopAtEos: false }))
      if (token !== undefined) at.push(performance.now());
    return {
      ...held,
      prefill: (1000 * ids.length) / (at[0] - start),
      decode: (1000 * (at.length - 1)) / (at[at.length - 1] - at[0]),
    };
  } finally {
    sequence.destroy();
  }
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b),
    middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
