import type { ForcedEnds, Step } from '../piece/atoms.ts';
import { joinedSpans, slotsIn } from '../piece/spans.ts';
import { expectObject, runGuarded } from './boundary.ts';
import { NO_BUDGET } from './forced.ts';
import { KvError } from '../tensor/errors.ts';
import { showValue } from '../piece/option.ts';

type ForcingStep = Pick<Step, 'name' | 'ends' | 'minSlots' | 'spans'>;

/** @throws KvError naming the step, unless `x` is a whole number of slots */
function slotsOf({ name }: ForcingStep, what: string, x: unknown): number {
  if (!Number.isSafeInteger(x) || (x as number) < 0)
    throw new KvError(name, `expected a whole number of slots as its ${what}, got ${showValue(x)}`);
  return x as number;
}

function stepEnds(step: ForcingStep, budget: number): Required<ForcedEnds> {
  if (!step.ends) return { first: 0, last: 0 };
  const made: unknown = runGuarded(step.name, 0, () => step.ends?.(budget));
  expectObject({ name: step.name }, 'ends', made);
  const { first = 0, last = 0 } = made as ForcedEnds;
  return { first: slotsOf(step, 'first ends', first), last: slotsOf(step, 'last ends', last) };
}

/**
 * Returns the first and last positions that the steps force in every head, whatever the text is.
 *
 * @throws KvError naming the step whose `ends` are not whole numbers
 */
export function endsOf(steps: readonly ForcingStep[], budget: number): Required<ForcedEnds> {
  const all = steps.map((step) => stepEnds(step, budget));
  return { first: Math.max(0, ...all.map((e) => e.first)), last: Math.max(0, ...all.map((e) => e.last)) };
}

/** Returns the number of those slots in a text that is long enough. */
export function certainSlots(steps: readonly ForcingStep[], budget: number): number {
  const { first, last } = endsOf(steps, budget);
  return slotsIn(joinedSpans([[0, first], ...steps.flatMap(({ spans = [] }) => spans)])) + last;
}

/** More slots than any context has: where no number of them holds what is forced, none is looked for above it. */
const LONGEST = 2 ** 40;

/**
 * Returns the smallest number of slots per head, from `budget` up to `slots`, that holds what is forced whatever the
 * text is; `NO_BUDGET` if none does. Ends may grow with the budget, so it is found by doubling, then by halving.
 *
 * @throws KvError naming the step whose `ends` are not whole numbers
 */
export function leastSlots(steps: readonly ForcingStep[], slots: number, budget: number): number {
  const holds = (held: number): boolean => Math.min(slots, certainSlots(steps, held)) <= held,
    most = Math.min(slots, LONGEST);
  if (holds(budget)) return budget;
  let low = budget,
    high = budget;
  while (!holds(high)) {
    if (high >= most) return NO_BUDGET;
    low = high;
    high = Math.min(most, 2 * high + 1);
  }
  while (high - low > 1) {
    const half = low + Math.floor((high - low) / 2);
    if (holds(half)) high = half;
    else low = half;
  }
  return high;
}

/**
 * Returns the declared maximum number of slots that steps together force in a head.
 *
 * @throws KvError naming the step whose `ends` or `minSlots` are not whole numbers
 */
export function minSlotsOf(steps: readonly ForcingStep[], slots: number, budget: number): number {
  const beyond = (step: ForcingStep): number => {
    if (!step.minSlots) return 0;
    const declared = slotsOf(
      step,
      'minSlots',
      runGuarded(step.name, 0, () => step.minSlots?.(slots, budget)),
    );
    return Math.max(0, declared - Math.min(slots, certainSlots([step], budget)));
  };
  return Math.min(
    slots,
    steps.reduce((sum, step) => sum + beyond(step), certainSlots(steps, budget)),
  );
}
