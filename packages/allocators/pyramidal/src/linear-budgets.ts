import { allocator } from '@kv/core';
import { apportion, sumOf } from '@kv/core/shared';
import type { BudgetPlan } from '@kv/core';
import { beta, line, tenths } from './line.ts';

/**
 * PyramidKV: budgets fall on a line from the first layer to the last, above the slots that the policy forces, equal for
 * all heads of a layer.
 *
 * @remarks Cai et al. 2024, arXiv:2406.02069, with the window W = the policy's minimum. The authors floor the step of
 * the line and so overspend; here largest remainders make the sum exact. Prompts shorter than 2 (M - W) get uniform
 * budgets, as theirs do. For layers of different lengths, which the paper does not have: the line is that of the
 * longest layer (a sliding window shortens the others), none gets more than it holds, and the difference goes to the
 * others in equal parts. Where layers have different numbers of KV heads, the line is scaled to the same slots in all and
 * rounded down.
 */
export const linearBudgets = allocator(
  'linearBudgets',
  {
    source: 'Cai et al. 2024, arXiv:2406.02069',
    says: 'Budgets that fall on a line from the first layer to the last.',
    options: { beta },
  },
  (plan, { beta: steepness }) => {
    const layers = plan.budgets.length;
    const heads = plan.budgets.map(({ length }) => length);
    const [first = 0] = heads;
    const alike = heads.every((count) => count === first);
    const asked = sumOf(plan.budgets.flat());
    const total = Math.round(asked / Math.max(1, first));
    const mean = alike ? total / layers : asked / sumOf(heads);
    const shortest = plan.lengths.map((row) => Math.min(...row));
    const slots = Math.max(...shortest);
    const above = mean - plan.floor;
    const fallback = (why: string): BudgetPlan => ({
      ...plan,
      notes: [...plan.notes, `linearBudgets: uniform budgets, ${why}`],
    });
    if (layers < 2) return fallback('one layer only');
    if (above <= 0) return fallback(`a budget of ${tenths(mean)} leaves nothing above the ${plan.floor} forced slots`);
    if (slots < 2 * above) return fallback(`${slots} slots are fewer than 2 (M - W) = ${tenths(2 * above)}`);
    const caps = plan.lengths.map((row, l) => Math.max(shortest[l], Math.min(plan.floor, Math.max(...row))));
    const over = line(above, slots - plan.floor, steepness, layers);
    // layers of more heads cost more of the same budget
    const scale = alike ? 1 : (above * sumOf(heads)) / sumOf(over.map((x, l) => x * heads[l]));
    const wanted = over.map((x) => scale * x + plan.floor);
    const budgets = alike
      ? apportion(wanted, total, plan.floor, caps)
      : wanted.map((x, l) => Math.min(Math.floor(x), caps[l]));
    return { ...plan, budgets: budgets.map((b, l) => new Array<number>(heads[l]).fill(b)) };
  },
);
