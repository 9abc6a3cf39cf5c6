import { KvError } from '@kv/core';

/**
 * Returns the index of the largest logit; ties go to the lower id. A logit of -Infinity bans its id.
 *
 * @throws KvError for NaN, for Infinity, and where no logit is a finite number.
 */
export function greedy(logits: Float32Array): number {
  let best = 0;
  for (let i = 0; i < logits.length; i++) {
    if (Number.isNaN(logits[i])) throw noLogits(logits, i);
    if (logits[i] > logits[best]) best = i;
  }
  if (!Number.isFinite(logits[best])) throw noLogits(logits, best);
  return best;
}
const noLogits = (logits: Float32Array, id: number): KvError =>
  new KvError(
    'logits',
    `must be finite numbers, or -Infinity for ids that are banned but not for all, got ${
      logits.length === 0 ? 'none' : `${logits[id]} for id ${id}`
    }: look at what changed them, or at the checkpoint's weights`,
  );
