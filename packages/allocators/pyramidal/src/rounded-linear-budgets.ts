import { allocator, whole } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import { beta, line, tenths } from './line.ts';

/**
 * PyramidKV's budgets as kvpress computes them: the line includes the window, each layer is rounded (half to even) by
 * itself, and budgets are uniform where the line would violate n >= top >= bottom >= window (or >= other forced slots).
 *
 * @remarks A share of the tokens is rounded in the layers and not before, as in kvpress: the sum may miss the total by
 * half a slot a layer. The report notes when the rule fell back.
 */
export const roundedLinearBudgets = allocator(
  'roundedLinearBudgets',
  {
    source: "Cai et al. 2024, arXiv:2406.02069, kvpress's rule",
    says: "PyramidKV's line as kvpress rounds it.",
    approximate: true,
    options: { window: whole(64, 'slots', "The scorer's observation window, for the rule's last check only."), beta },
  },
  (plan, { window, beta: steepness }) => {
    const layers = plan.budgets.length;
    const flat = plan.budgets.flat();
    const whole = sumOf(flat) / Math.max(1, flat.length);
    const { requested: asked = whole } = plan;
    const mean = flat.every((b) => b === Math.floor(asked)) ? asked : whole; // no allocator ran before
    const slots = Math.min(...plan.lengths.flat());
    const caps = layers < 2 ? [] : line(mean, slots - window, steepness, layers);
    const top = caps[0] ?? -1;
    const bottom = caps.at(-1) ?? -1;
    const least = Math.max(window, plan.floor);
    if (!(slots >= top && top >= bottom && bottom >= least))
      return {
        ...plan,
        budgets: mean === asked ? plan.budgets.map((heads) => heads.map(() => halfToEven(mean))) : plan.budgets,
        notes: [
          ...plan.notes,
          `roundedLinearBudgets: uniform budgets, the line from ${tenths(top)} to ${tenths(bottom)} leaves ${slots} >= top >= bottom >= ${least}`,
        ],
      };
    return { ...plan, budgets: plan.budgets.map((heads, l) => heads.map(() => halfToEven(caps[l]))) };
  },
);

function halfToEven(x: number): number {
  const down = Math.floor(x);
  return x - down === 0.5 ? down + (down % 2) : Math.round(x);
}
