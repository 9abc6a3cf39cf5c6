import { exactSlotsOf, slotsOf } from '../piece/budget.ts';
import type { Budget, BudgetShare } from '../piece/budget.ts';
import { KvError } from '../tensor/errors.ts';

/** What a policy evicts and forces, as budgets look at it. */
export interface BudgetTraits {
  readonly label: string;
  /** The name for people: a method's name, else the label. */
  readonly called: string;
  /** It ends in kept slots, so events evict. */
  readonly evicts: boolean;
  /** Some allocator finds the size itself, so no budget has to be given. */
  readonly sizes: boolean;
  /** Some step may force more than its floor, by what the text is. */
  readonly open: boolean;
  /** Some allocator that reads scores may give more than was asked for. */
  readonly raises: boolean;
  /** The most slots that its steps force in a head, as they declare it. */
  floor(slots: number, budget: number): number;
  /** The fewest slots a head, at least `budget`, that hold what is forced whatever the text is. */
  least(slots: number, budget: number): number;
  /** Who forces them. */
  forcers(slots: number, budget: number): readonly string[];
  /** What to change where that many are forced and the budget is smaller: the end of a sentence. */
  budgetHint(slots: number, budget: number): string;
}

/** What a budget allows each KV head under a policy. */
export interface Allowance {
  /** Whole slots; of a share at least those that the policy forces. */
  readonly slots: number;
  /** Slots of a share before they were rounded, and before what is forced raised them. */
  readonly asked?: number;
  /** The share that it is. */
  readonly share?: BudgetShare;
}

/**
 * @throws KvError for what is no budget, for none under a policy that evicts to one, and for a number of slots that the
 * policy can never keep, however long the text: before anything runs.
 */
export function expectBudget(policy: BudgetTraits, budget: Budget | undefined, at = 'budget'): void {
  if (budget === undefined) {
    if (!policy.evicts || policy.sizes) return;
    throw new KvError(
      at,
      `'${policy.label}' evicts, so a budget is expected: a number of slots, or a share such as '25%'`,
    );
  }
  slotsOf(budget, 1);
  if (typeof budget !== 'number' || !policy.evicts || policy.raises || policy.least(Infinity, budget) <= budget) return;
  throw new KvError(
    at,
    `${budget} slots are fewer than '${policy.called}' forces in every head: ${policy.budgetHint(Number.MAX_SAFE_INTEGER, budget)}`,
  );
}

/**
 * What a budget allows of so many tokens. A share of them is rounded down, and never below what the policy forces
 * whatever the text is.
 *
 * @throws KvError as `expectBudget`
 */
export function allowanceOf(policy: BudgetTraits, budget: Budget, tokens: number, at = 'budget'): Allowance {
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
export const raisedText = (share: BudgetShare, forcers: readonly string[]): string =>
  `kept more than ${share}, as ${forcers.join(' and ') || 'the policy'} force${forcers.length > 1 ? '' : 's'} more slots`;

/** The same of an allowance, if it was raised. */
export const raisedNote = (policy: BudgetTraits, { slots, asked = slots, share }: Allowance): string | undefined =>
  share === undefined || slots <= Math.max(1, Math.floor(asked))
    ? undefined
    : raisedText(share, policy.forcers(Number.MAX_SAFE_INTEGER, slots));

/**
 * The most slots that events under this budget leave a head, where all heads get alike.
 *
 * @param tokens of which a share is one
 * @param present tokens that there may be at an event
 */
export function mostKept(policy: BudgetTraits, budget: Budget, tokens: number, present: number = tokens): number {
  const slots = slotsOf(budget, tokens);
  if (typeof budget === 'number') return slots;
  return Math.max(policy.least(present, slots), policy.open ? present : policy.floor(present, slots));
}
