import { allocator as makeAllocator } from '@kv/core';
import type { Allocator, BudgetPlan } from '@kv/core';
import { allocator } from '../../src/allocator.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

interface Head {
  readonly b: number;
  readonly n: number;
  readonly floor: number;
  readonly i: number;
}
/** Takes `by` from the first head that may give and gives it to the first other one that may take. */
const move = (
  plan: BudgetPlan,
  by: number,
  gives: (h: Head) => boolean,
  takes: ((h: Head) => boolean) | undefined,
): BudgetPlan => {
  const heads = plan.budgets
    .flatMap((row, l) => row.map((b, g) => ({ b, n: plan.lengths[l][g], l, g })))
    .map((h, i) => ({ ...h, floor: Math.min(plan.floor, h.n), i }));
  const from = heads.find(gives),
    to = takes && heads.find((h) => h.i !== from?.i && takes(h));
  if (!from || (takes && !to)) return plan;
  return {
    ...plan,
    budgets: plan.budgets.map((row, l) =>
      row.map((b, g) => b - (from.l === l && from.g === g ? by : 0) + (to && to.l === l && to.g === g ? by : 0)),
    ),
  };
};
const made = (name: string, plan: (plan: BudgetPlan) => BudgetPlan): Allocator => makeAllocator(name, {}, plan)();
const spare =
    (by: number) =>
    ({ b, floor }: Head): boolean =>
      b - by >= floor,
  room =
    (by: number) =>
    ({ b, n }: Head): boolean =>
      b + by <= n;
let calls = 0;
export const allocators: Field = field('allocator', allocator, {
  good: made('as it is', (p) => p),
  mutants: {
    shape: made('one layer more', (p) => ({ ...p, budgets: [...p.budgets, []] })),
    whole: made('halves', (p) => move(p, 0.5, spare(0.5), room(0.5))),
    total: made('loses one', (p) => move(p, 1, spare(1), undefined)),
    cap: made('overfills', (p) => move(p, 1, spare(1), ({ b, n }) => b === n)),
    floor: made('starves', (p) => move(p, 1, ({ b, floor }) => b > 0 && b <= floor, room(1))),
    deterministic: made('alternates', (p) => (calls++ % 2 === 0 ? p : move(p, 1, spare(1), room(1)))),
  },
});
