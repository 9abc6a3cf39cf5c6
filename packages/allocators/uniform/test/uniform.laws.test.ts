import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, id } from '@kv/core';
import { compile, planBudgets } from '@kv/core/engine';
import { allocatorLaws, each } from '@kv/laws';
import { uniform } from '../src/index.ts';

each(allocatorLaws(uniform()), test);

test('every head gets the budget, as far as it has slots: the same as without an allocator', () => {
  const lengths = fc.array(fc.array(fc.nat(30), { minLength: 2, maxLength: 2 }), { minLength: 1, maxLength: 5 });
  fc.assert(
    fc.property(lengths, fc.nat(40), (all, budget) => {
      const { budgets } = planBudgets(compile(uniform()), budget, all);
      expect(budgets).toEqual(all.map((heads) => heads.map((n) => Math.min(n, budget))));
      expect(budgets).toEqual(planBudgets(compile(compose(id)), budget, all).budgets);
    }),
  );
});
