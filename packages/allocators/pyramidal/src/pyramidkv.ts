import { checkNumber, isCount } from '@kv/core';
import { allocator } from '@kv/core/old';
import type { Allocator, Plan } from '@kv/core';
import { line } from './line.ts';

export interface PyramidkvOptions {
  /** Observation window of the scorer, for the rule's last check only. @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 20 */
  readonly beta?: number;
}

/**
 * PyramidKV's budgets as kvpress computes them: the line includes the window, each layer is rounded (half to even) by
 * itself, and
 * where it would leave n >= top >= bottom >= window (or >= what else is forced) the budgets are uniform.
 *
 * @remarks The sum may miss the total by the rounding. The report says when the rule fell back.
 * @throws KvError if `window` is not a whole number or `beta` not at least 1.
 */
export function pyramidkv({ window = 64, beta = 20 }: PyramidkvOptions = {}): Allocator<'pyramidkv'> {
  checkNumber('pyramidkv', 'window', window, 'a whole number of slots', isCount);
  checkNumber('pyramidkv', 'beta', beta, 'a number of at least 1', (b) => b >= 1);
  return allocator({ name: 'pyramidkv', options: { window, beta } }, (plan: Plan) => {
    const layers = plan.budgets.length,
      flat = plan.budgets.flat();
    const mean = flat.reduce((a, b) => a + b, 0) / Math.max(1, flat.length),
      slots = Math.min(...plan.lengths.flat());
    const caps = layers < 2 ? [] : line(mean, slots - window, beta, layers);
    const top = caps[0] ?? -1,
      bottom = caps.at(-1) ?? -1;
    const least = Math.max(window, plan.floor);
    if (!(slots >= top && top >= bottom && bottom >= least))
      return {
        ...plan,
        notes: [
          ...plan.notes,
          `pyramidkv: uniform budgets, the line from ${top} to ${bottom} leaves ${slots} >= top >= bottom >= ${least}`,
        ],
      };
    return { ...plan, budgets: plan.budgets.map((heads, l) => heads.map(() => halfToEven(caps[l]))) };
  });
}

function halfToEven(x: number): number {
  const down = Math.floor(x);
  return x - down === 0.5 ? down + (down % 2) : Math.round(x);
}
