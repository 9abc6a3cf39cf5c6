import { KvError } from './errors.ts';
import { shown } from './option.ts';

/** A share of the tokens seen, as `'25%'`. */
export type Share = `${number}%`;
/**
 * Slots per layer and KV head on average, or a share of the tokens seen. A number is a promise that nothing breaks; of a
 * share what the policy forces is kept even where that is more.
 */
export type Budget = number | Share;

/** Slots that a budget means for n tokens. @throws KvError for what is neither a whole number nor a share. */
export const slotsOf = (budget: Budget, n: number): number => Math.max(1, Math.floor(exactSlotsOf(budget, n)));

/** The same before a share is rounded down. @throws KvError for what is neither a whole number nor a share. */
export function exactSlotsOf(budget: Budget, n: number): number {
  if (typeof budget === 'number') {
    if (Number.isInteger(budget) && budget >= 1) return budget;
    throw new KvError(
      'budget',
      `must be a whole number of slots of at least 1, or a share such as '25%', got ${budget}`,
    );
  }
  const share = typeof budget === 'string' ? Number(/^(\d+(?:\.\d+)?)%$/.exec(budget)?.[1] ?? NaN) : NaN;
  if (!(share > 0 && share <= 100))
    throw new KvError(
      'budget',
      `must be a whole number of slots, or a share above 0% and up to 100%, got ${shown(budget)}`,
    );
  return (n * share) / 100;
}
