import { budgetText, exactSlotsOf, isShare, readBudget, slotsOf } from '../piece/budget.ts';
import type { Budget, BudgetShare, SlotBytes } from '../piece/budget.ts';
import type { PositionSpan } from '../piece/atoms.ts';
import { slotsIn } from '../piece/spans.ts';
import { KvError } from '../tensor/errors.ts';
import { counted } from '../text/counted.ts';

/** What planning a budget needs to know of a policy. */
export interface BudgetTraits {
  readonly label: string;
  /** Display name: the method's name, else the label. */
  readonly methodName: string;
  /** It ends in kept slots, so events evict. */
  readonly evicts: boolean;
  /** Positions that `protect` keeps, ordered and disjoint. */
  readonly protectedSpans: readonly PositionSpan[];
  /** An allocator chooses the size itself, so no budget is needed. */
  readonly choosesBudget: boolean;
  /** A step may force more slots than its floor, depending on the text. */
  readonly open: boolean;
  /** An allocator that reads scores may give more than was asked for. */
  readonly raises: boolean;
  /** Returns the declared maximum number of slots that its steps force in a head. */
  minSlots(slots: number, budget: number): number;
  /**
   * Returns the smallest number of slots per head, at least `budget`, that holds what is forced whatever the text is; if
   * no number does, one above the slots of any context.
   */
  least(slots: number, budget: number): number;
  /** Returns the pieces that force them. */
  forcers(slots: number, budget: number): readonly string[];
  /** Returns the end of an error sentence: what to change if that many slots are forced and the budget is smaller. */
  budgetHint(slots: number, budget: number): string;
}

/** What a budget allows each KV head under a policy. */
export interface Allowance {
  /** Whole slots; if the budget is a share, at least those that the policy forces. */
  readonly slots: number;
  /** Slots of a share before rounding, and before forced slots raised them. */
  readonly requested?: number;
  /** The share, if the budget is one. */
  readonly share?: BudgetShare;
  /** The bytes, if the budget is a number of them. */
  readonly bytes?: number;
}

/** Where a budget was given, and for which caches. */
export interface BudgetPlace {
  /** What errors name. @defaultValue 'budget' */
  readonly at?: string | undefined;
  /** The sizes of slots, which bytes and shares of a form need. */
  readonly sizes?: SlotBytes | undefined;
}

/**
 * Checks a budget before anything runs; how many slots a number of bytes holds only where `sizes` are given.
 * @throws KvError for an invalid budget, for a missing one if the policy evicts to one, for bytes that hold no slot, and
 * for a number of slots or bytes that the policy can never keep, however long the text.
 */
export function expectBudget(
  policy: BudgetTraits,
  budget: Budget | undefined,
  { at = 'budget', sizes }: BudgetPlace = {},
): void {
  if (budget === undefined) {
    if (!policy.evicts || policy.choosesBudget) return;
    throw new KvError(
      at,
      `'${policy.methodName}' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'`,
    );
  }
  const parsed = readBudget(budget, at);
  if ('percent' in parsed || ('bytes' in parsed && !sizes)) return;
  const slots = slotsOf(budget, 1, sizes, at);
  expectProtected(policy, slots, at);
  if (!policy.evicts || policy.raises || policy.least(Infinity, slots) <= slots) return;
  const of = counted(slots, 'slot'),
    { said, each } =
      'bytes' in parsed && sizes
        ? {
            said: `${of}, which ${budgetText(budget)} hold,`,
            each: `; a slot is ${sizes.bytesPerSlot} bytes in ${sizes.form}${sizes.fixedBytes ? `, and the policy holds ${sizes.fixedBytes} more` : ''}`,
          }
        : { said: of, each: '' };
  throw new KvError(
    at,
    `${said} ${slots === 1 ? 'is' : 'are'} fewer than '${policy.methodName}' forces in every head: ${policy.budgetHint(Number.MAX_SAFE_INTEGER, slots)}${each}`,
  );
}

/** @throws KvError where `slots` cannot hold the protected positions */
function expectProtected({ evicts, choosesBudget, protectedSpans }: BudgetTraits, slots: number, at: string): void {
  const asked = slotsIn(protectedSpans);
  if (evicts && !choosesBudget && asked > slots)
    throw new KvError(
      at,
      `${counted(asked, 'position')} ${asked === 1 ? 'is' : 'are'} protected, and each KV head has a budget of ${counted(slots, 'slot')}: protect less, or give a budget of at least ${asked}`,
    );
}

/**
 * Returns what a budget allows for the given number of tokens. It is rounded down, but a share never below what the
 * policy forces whatever the text is.
 * @param tokens tokens that a share is of
 * @throws KvError as `expectBudget`, and for a budget that needs `sizes` and has none
 */
export function allowanceOf(
  policy: BudgetTraits,
  budget: Budget,
  tokens: number,
  { at = 'budget', sizes }: BudgetPlace = {},
): Allowance {
  expectBudget(policy, budget, { at, sizes });
  const slots = slotsOf(budget, tokens, sizes, at);
  if (isShare(budget))
    return {
      slots: policy.evicts ? policy.least(tokens, slots) : slots,
      requested: exactSlotsOf(budget, tokens, sizes),
      share: budget,
    };
  const parsed = readBudget(budget);
  return { slots, ...('bytes' in parsed && { bytes: parsed.bytes }) };
}

/** Returns the note for a share that was raised to what is forced. */
export const raisedText = (share: BudgetShare, forcers: readonly string[]): string =>
  `kept more than ${share}, as ${forcers.join(' and ') || 'the policy'} force${forcers.length > 1 ? '' : 's'} more slots`;

/** Returns that note for an allowance, if it was raised. */
export const raisedNote = (
  policy: BudgetTraits,
  { slots, requested: asked = slots, share }: Allowance,
): string | undefined =>
  share === undefined || slots <= Math.max(1, Math.floor(asked))
    ? undefined
    : raisedText(share, policy.forcers(Number.MAX_SAFE_INTEGER, slots));

/**
 * Returns the maximum number of slots that events under this budget leave in a head, if all heads get the same.
 *
 * @param tokens number that a share is taken of
 * @param present maximum number of tokens present at an event. @defaultValue `tokens`
 */
export function mostKept(
  policy: BudgetTraits,
  budget: Budget,
  tokens: number,
  { present = tokens, sizes }: { readonly present?: number | undefined; readonly sizes?: SlotBytes | undefined } = {},
): number {
  const slots = slotsOf(budget, tokens, sizes);
  if (!isShare(budget)) return slots;
  return Math.max(policy.least(present, slots), policy.open ? present : policy.minSlots(present, slots));
}
