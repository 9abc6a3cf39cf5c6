import Type from 'typebox';

/** Mean caches that differ by more than this share are not matched, whatever a plan asks for. */
export const MATCHED = 0.05;

/** Share of a mean cache that another may differ by. */
export const Within = Type.Number({ exclusiveMinimum: 0, maximum: MATCHED });

/** A budget whose mean cache was measured. */
export interface BudgetMatch {
  readonly budget: number;
  readonly mean: number;
  /** Whether the mean is within the share that was asked for. */
  readonly matched: boolean;
}

/** Most budgets that are tried. */
export const ROUNDS = 12;

/** Whether a mean cache is another within a share of it. */
export const agree = (mean: number, target: number, within = 0.01): boolean =>
  Math.abs(mean - target) <= within * target;

/**
 * The number of slots at which a policy's mean cache is nearest to `target`: each next one is in proportion to the
 * last, until the mean is within a share of the target, or neighbours on both sides are known.
 */
export async function rebudget(
  target: number,
  start: number,
  within: number,
  measure: (budget: number) => Promise<number>,
): Promise<BudgetMatch> {
  const tried = new Map<number, number>(),
    off = (budget: number): number => Math.abs(tried.get(budget)! - target); // asked of tried ones
  let budget = Math.max(1, Math.round(start));
  for (let round = 0; round < ROUNDS && !tried.has(budget); round++) {
    const mean = await measure(budget);
    tried.set(budget, mean);
    if (agree(mean, target, within)) break;
    const next = Math.max(1, Math.round((budget * target) / mean));
    // rounding, or a mean that moves less than its budget, would stay: the nearest in the right direction is tried
    budget = tried.has(next) ? Math.max(1, budget + Math.sign(target - mean)) : next;
  }
  const best = [...tried.keys()].reduce((a, b) => (off(b) < off(a) ? b : a));
  return { budget: best, mean: tried.get(best)!, matched: agree(tried.get(best)!, target, within) };
}
