import { KvError } from '@kv/core';

/** Slots per layer and KV head on average, or the share of the prompt that is kept, as `'25%'`. */
export type Budget = number | `${number}%`;

/**
 * Slots that a budget means for a prompt of n tokens. @throws KvError for what is neither a whole number nor a share.
 */
export function slotsOf(budget: Budget, n: number): number {
  if (typeof budget === 'number') {
    if (!Number.isInteger(budget) || budget < 1)
      throw new KvError(
        'budget',
        `must be a whole number of slots of at least 1, or a share such as '25%', got ${budget}`,
      );
    return budget;
  }
  const share = /^(\d+(?:\.\d+)?)%$/.exec(String(budget))?.[1];
  if (share === undefined || !(Number(share) > 0 && Number(share) <= 100))
    throw new KvError(
      'budget',
      `must be a whole number of slots, or a share above 0% and up to 100%, got ${JSON.stringify(budget)}`,
    );
  return Math.max(1, Math.floor((n * Number(share)) / 100));
}
