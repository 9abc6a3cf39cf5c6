import { KvError } from '../tensor/errors.ts';
import { showValue } from './option.ts';
import type { Option } from './option.ts';

/** A share of the tokens seen, such as `'25%'`. */
export type BudgetShare = `${number}%`;
/**
 * Slots per layer and KV head on average, or a share of the tokens seen. A number is never exceeded; under a share,
 * what the policy forces is kept even if that is more.
 */
export type Budget = number | BudgetShare;

/** Returns an option that is a budget; absent by default. */
export const budgetOption = (says: string, otherwise?: string): Option<Budget | undefined> => ({
  default: undefined,
  says,
  form: {
    sort: 'text',
    of: 'slots',
    want: "a whole number of slots of at least 1, or a share such as '25%', above 0% and up to 100%",
    read: (x) => (isBudget(x) ? x : undefined),
  },
  ...(otherwise !== undefined && { otherwise }),
});
const isBudget = (x: unknown): x is Budget =>
  typeof x === 'number' ? Number.isInteger(x) && x >= 1 : typeof x === 'string' && percent(x) > 0 && percent(x) <= 100;
const percent = (share: string): number => Number(/^(\d+(?:\.\d+)?)%$/.exec(share)?.[1] ?? NaN);

/** Returns the number of slots that a budget means for n tokens. @throws KvError for an invalid budget. */
export const slotsOf = (budget: Budget, n: number): number => Math.max(1, Math.floor(exactSlotsOf(budget, n)));

/** Returns that number before a share is rounded down. @throws KvError for an invalid budget. */
export function exactSlotsOf(budget: Budget, n: number): number {
  if (typeof budget === 'number') {
    if (Number.isInteger(budget) && budget >= 1) return budget;
    throw new KvError(
      'budget',
      `must be a whole number of slots of at least 1, or a share such as '25%', got ${budget}`,
    );
  }
  const share = typeof budget === 'string' ? percent(budget) : NaN;
  if (!(share > 0 && share <= 100))
    throw new KvError(
      'budget',
      `must be a whole number of slots, or a share above 0% and up to 100%, got ${showValue(budget)}`,
    );
  return (n * share) / 100;
}
