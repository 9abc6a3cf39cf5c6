import { KvError } from '../tensor/errors.ts';
import { showValue } from './option.ts';
import type { Option } from './option.ts';

/** The names of the forms that caches are stored in, from the finest to the coarsest. */
export const formNames = ['f32', 'f16', 'q8', 'k8v4', 'q4'] as const;
/** The name of a form that caches are stored in. */
export type FormName = (typeof formNames)[number];

/** A share of the tokens seen, such as `'25%'`; or of their bytes in a stated form, such as `'25% of f16'`. */
export type BudgetShare = `${number}%` | `${number}% of ${FormName}`;
const units = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const;
/** Bytes as a text, such as `'64MiB'`. */
export type BudgetBytes = `${number}${keyof typeof units}`;
/**
 * What an eviction leaves: slots per layer and KV head on average, a share of the tokens seen, or bytes of a whole
 * sequence's cache. Numbers of slots and of bytes are never exceeded; under a share, what the policy forces is kept even
 * if that is more.
 */
export type Budget = number | BudgetShare | BudgetBytes | { readonly bytes: number };

/** What turns the bytes of a budget into slots: bytes of one slot in every layer and KV head of a sequence's cache. */
export interface SlotBytes {
  /** How the cache is stored. */
  readonly form: FormName;
  /** At most those that a slot has on average, wherever a policy moves slots. */
  readonly bytesPerSlot: number;
  /** Bytes that a policy holds in addition to slots, of a whole sequence. @defaultValue 0 */
  readonly fixedBytes?: number;
  /** Returns the bytes of such a slot in another form. */
  bytesOf(form: FormName): number;
}

/** A budget that was read. */
export type ParsedBudget =
  | { readonly slots: number }
  | { readonly percent: number; readonly of?: FormName }
  | { readonly bytes: number };

const SHARE = /^(\d+(?:\.\d+)?)%(?: of (\w+))?$/,
  BYTES = /^(\d+(?:\.\d+)?)(B|KiB|MiB|GiB)$/,
  NO_SLOT = 'must be at least the bytes of one slot',
  WANT = `a whole number of slots of at least 1, a share above 0% and up to 100% such as '25%' or '25% of f16' (${formNames.slice(0, -1).join(', ')} or ${formNames.at(-1)}), or bytes such as '64MiB' (B, KiB, MiB or GiB)`;

const isForm = (name: string): name is FormName => formNames.some((form) => form === name);
const isCount = (x: number): boolean => Number.isSafeInteger(x) && x >= 1;

/** Returns what a budget means, or undefined for anything else. */
export function parseBudget(x: unknown): ParsedBudget | undefined {
  if (typeof x === 'number') return isCount(x) ? { slots: x } : undefined;
  if (typeof x === 'object' && x !== null) {
    const { bytes } = x as { readonly bytes?: unknown };
    return typeof bytes === 'number' && isCount(bytes) && Object.keys(x).length === 1 ? { bytes } : undefined;
  }
  if (typeof x !== 'string') return undefined;
  const [, share, of] = SHARE.exec(x) ?? [],
    percent = Number(share);
  if (percent > 0 && percent <= 100 && (of === undefined || isForm(of)))
    return { percent, ...(of !== undefined && { of }) };
  const [, count, unit] = BYTES.exec(x) ?? [],
    bytes = Math.floor(Number(count) * units[(unit ?? 'B') as keyof typeof units]);
  return isCount(bytes) ? { bytes } : undefined;
}

/** Returns the meaning of a budget. @throws KvError for an invalid one */
export function readBudget(budget: Budget, at = 'budget'): ParsedBudget {
  const parsed = parseBudget(budget);
  if (parsed === undefined) throw new KvError(at, misread(budget) ?? `must be ${WANT}, got ${showValue(budget)}`);
  return parsed;
}

/** The unit that was meant by a letter. */
const WRITTEN: Readonly<Record<string, string>> = { k: 'KiB', m: 'MiB', g: 'GiB', t: 'GiB' };

/** Returns what is wrong with bytes that are no budget, if it is clear what was meant. */
function misread(x: unknown): string | undefined {
  if (typeof x === 'object' && x !== null && 'bytes' in x && Object.keys(x).length === 1)
    return x.bytes === 0
      ? `${NO_SLOT}, got { bytes: 0 }`
      : `must have bytes as a positive whole number, got { bytes: ${showValue(x.bytes)} }`;
  const [, count = '', unit, alone] = /^(\d{1,15}(?:\.\d{1,15})?) ?(?:([kmgt]?)i?b|([kmgt]))$/i.exec(String(x)) ?? [],
    of = unit ?? alone;
  if (of === undefined) return undefined;
  if (BYTES.test(String(x)) || Number(count) === 0) return `${NO_SLOT}, got ${showValue(x)}`;
  const meant = `${of.toLowerCase() === 't' ? 1024 * Number(count) : count}${WRITTEN[of.toLowerCase()] ?? 'B'}`;
  return `must be in units of 1,024 bytes (B, KiB, MiB or GiB), such as '${meant}', got ${showValue(x)}`;
}

/** Whether a value is a budget that is a share. */
export const isShare = (budget: unknown): budget is BudgetShare =>
  typeof budget === 'string' && budget.includes('%') && parseBudget(budget) !== undefined;

/** Returns a budget as text that reads back as the same budget: bytes exactly, in the largest unit that is whole. */
export function budgetText(budget: Budget): string {
  if (typeof budget !== 'object') return String(budget);
  const { bytes } = budget,
    [unit, size] = Object.entries(units).findLast(([, one]) => bytes % one === 0)!; // every number is whole in B
  return `${bytes / size}${unit}`;
}

/** Returns an option that is a budget; absent by default. */
export const budgetOption = (says: string, otherwise?: string): Option<Budget | undefined> => ({
  default: undefined,
  says,
  form: { sort: 'text', of: 'budget', want: WANT, read: (x) => (parseBudget(x) ? x : undefined), misread },
  ...(otherwise !== undefined && { otherwise }),
});

/**
 * Returns the number of slots that a budget means for n tokens, rounded down: at least 1 for a share.
 * @param sizes the sizes of slots, which bytes and shares of a form need
 * @param at what errors name. @defaultValue 'budget'
 * @throws KvError for an invalid budget, for one that needs `sizes` and has none, and for bytes that hold no slot
 */
export function slotsOf(budget: Budget, n: number, sizes?: SlotBytes, at = 'budget'): number {
  const exact = exactSlotsOf(budget, n, sizes, at),
    slots = Math.floor(exact);
  if (slots >= 1) return slots;
  if (isShare(budget)) return 1;
  const { form, bytesPerSlot, fixedBytes = 0 } = sizes!; // a number of slots is whole, and bytes were turned into slots
  throw new KvError(
    at,
    `${budgetText(budget)} hold no slot: one slot in every layer and KV head is ${bytesPerSlot} bytes in ${form}${fixedBytes > 0 ? `, and the policy holds ${fixedBytes} more` : ''}, so expected at least ${bytesPerSlot + fixedBytes}B${fixedBytes > 0 ? ', or a policy that holds less' : form === formNames.at(-1) ? '' : ', or a cache in a coarser form'}`,
  );
}

/** Returns that number before it is rounded. @throws KvError as `slotsOf`, but for bytes that hold no slot */
export function exactSlotsOf(budget: Budget, n: number, sizes?: SlotBytes, at = 'budget'): number {
  const parsed = readBudget(budget, at);
  if ('slots' in parsed) return parsed.slots;
  if ('percent' in parsed && parsed.of === undefined) return nearWhole((n * parsed.percent) / 100);
  if (!sizes)
    throw new KvError(
      at,
      `'${budgetText(budget)}' needs a model's cache, whose slots have a size: here expected slots, or a share such as '25%'`,
    );
  const { bytesPerSlot, fixedBytes = 0 } = sizes;
  if ('bytes' in parsed) return (parsed.bytes - fixedBytes) / bytesPerSlot;
  const bytes = nearWhole((n * parsed.percent * sizes.bytesOf(parsed.of!)) / 100); // only a share of a form is left
  return nearWhole((bytes - fixedBytes) / bytesPerSlot);
}

/** Returns the whole number that a product of decimals missed by rounding alone, else the product. */
function nearWhole(x: number): number {
  const whole = Math.round(x);
  return Math.abs(x - whole) <= 4 * Number.EPSILON * Math.abs(x) ? whole : x;
}
