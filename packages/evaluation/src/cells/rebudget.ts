import Type from 'typebox';

/** Maximum relative difference of mean caches that count as matched, whatever a plan asks for. */
export const MATCHED = 0.05;

/** Tolerated relative difference between two mean caches. */
export const Within = Type.Number({ exclusiveMinimum: 0, maximum: MATCHED });

/** A budget whose mean cache was measured. */
export interface BudgetMatch {
  readonly budget: number;
  readonly mean: number;
  /** Whether the mean is within the tolerance. */
  readonly matched: boolean;
}

/** Maximum number of budgets tried. */
export const ROUNDS = 12;

/** Whether a mean cache is within a relative tolerance of a target. */
export const agree = (mean: number, target: number, within = 0.01): boolean =>
  Math.abs(mean - target) <= within * target;

/**
 * Finds the budget in slots at which a policy's mean cache is nearest to `target`. Scales the budget in proportion
 * until the mean is within tolerance, or both neighbouring budgets have been tried.
 */
export async function rebudget(
  target: number,
  start: number,
  within: number,
  measure: (budget: number) => Promise<number>,
): Promise<BudgetMatch> {
  const tried = new Map<number, number>(),
    off = (budget: number): number => Math.abs(tried.get(budget)! - target); // called only for budgets that were tried
  let budget = Math.max(1, Math.round(start));
  for (let round = 0; round < ROUNDS && !tried.has(budget); round++) {
    const mean = await measure(budget);
    tried.set(budget, mean);
    if (agree(mean, target, within)) break;
    const next = Math.max(1, Math.round((budget * target) / mean));
    // if rounding, or a mean that moves less than its budget, repeats a budget, try its neighbour in the right
    // direction
    budget = tried.has(next) ? Math.max(1, budget + Math.sign(target - mean)) : next;
  }
  const best = [...tried.keys()].reduce((a, b) => (off(b) < off(a) ? b : a));
  return { budget: best, mean: tried.get(best)!, matched: agree(tried.get(best)!, target, within) };
}
