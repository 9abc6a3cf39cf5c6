import { exactSlotsOf, slotsOf } from './budget.ts';
import type { Budget, Share } from './budget.ts';
import { KvError } from './errors.ts';
import { forcerText } from './forced.ts';
import type { Forcer } from './atoms.ts';
import type { Compiled } from './run.ts';

/** What a budget allows each KV head under a policy. */
export interface Allowance {
  /** Whole slots; of a share at least those that the policy forces. */
  readonly slots: number;
  /** Slots of a share before they were rounded, and before what is forced raised them. */
  readonly asked?: number;
  /** The share that it is. */
  readonly share?: Share;
}

/**
 * @throws KvError for what is no budget, and for a number of slots that the policy can never keep, however long the text:
 * before anything runs.
 */
export function expectBudget(policy: Compiled, budget: Budget, at = 'budget'): void {
  slotsOf(budget, 1);
  if (typeof budget !== 'number' || !policy.evicts || policy.raises || policy.least(Infinity, budget) <= budget) return;
  throw new KvError(
    at,
    `${budget} slots are fewer than '${policy.called}' forces in every head: ${policy.wayOut(Number.MAX_SAFE_INTEGER, budget)}`,
  );
}

/**
 * What a budget allows of so many tokens. A share of them is rounded down, and never below what the policy forces
 * whatever the text is.
 *
 * @throws KvError as `expectBudget`
 */
export function allowanceOf(policy: Compiled, budget: Budget, tokens: number, at = 'budget'): Allowance {
  expectBudget(policy, budget, at);
  const slots = slotsOf(budget, tokens);
  if (typeof budget === 'number') return { slots };
  return {
    slots: policy.evicts ? policy.least(tokens, slots) : slots,
    asked: exactSlotsOf(budget, tokens),
    share: budget,
  };
}

/** What a report says where a share was raised to what is forced. */
export const raisedText = (share: Share, forcers: readonly Forcer[]): string =>
  `kept more than ${share}, as ${forcerText(forcers) || 'the policy'} force${forcers.length > 1 ? '' : 's'} more slots`;

/** The same of an allowance, if it was raised. */
export const raisedNote = (policy: Compiled, { slots, asked = slots, share }: Allowance): string | undefined =>
  share === undefined || slots <= Math.max(1, Math.floor(asked))
    ? undefined
    : raisedText(share, policy.forcers(Number.MAX_SAFE_INTEGER, slots));

/**
 * The most slots that events under this budget leave a head, where all heads get alike.
 *
 * @param tokens of which a share is one
 * @param present tokens that there may be at an event
 */
export function mostKept(policy: Compiled, budget: Budget, tokens: number, present: number = tokens): number {
  const slots = slotsOf(budget, tokens);
  if (typeof budget === 'number') return slots;
  return Math.max(policy.least(present, slots), policy.open ? present : policy.floor(present, slots));
}
