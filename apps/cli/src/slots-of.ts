import type { Budget } from '@kv/models';

/** Slots that a budget means for a prompt of `length` tokens. */
export const slotsOf = (budget: Budget, length: number): number =>
  typeof budget === 'number' ? budget : Math.max(1, Math.floor((length * Number.parseFloat(budget)) / 100));
