import { allocator } from '@kv/core';
import { apportion } from '@kv/core/shared';

/**
 * A rising line: each head of layer l of L gets `mean * (0.5 + l / (L - 1))` slots, with the same sum.
 *
 * @remarks Source: authors, year, identifier, equation. No head gets fewer slots than the policy forces or more than it
 * holds; budgets stay as they are with one layer, or where their mean is below the forced slots.
 */
export const __camel__ = allocator(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Budgets that rise from the first layer to the last.',
  },
  (plan) => {
    const layers = plan.budgets.length;
    const budgets = plan.budgets.flat();
    const total = budgets.reduce((a, b) => a + b, 0);
    const mean = total / budgets.length;
    if (layers < 2 || mean < plan.floor) return plan;
    const targets = plan.budgets.flatMap((heads, layer) => heads.map(() => mean * (0.5 + layer / (layers - 1))));
    const shares = apportion(targets, total, plan.floor, plan.lengths.flat());
    return { ...plan, budgets: plan.budgets.map((heads) => shares.splice(0, heads.length)) };
  },
);
