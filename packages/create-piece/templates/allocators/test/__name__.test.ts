import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compile, planBudgets } from '@kv/core/engine';
import { allocatorLaws, each } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(allocatorLaws(__camel__()), test);

test('agrees with the float64 oracle within one slot, with the same sum, where every layer has room', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 12 }),
      fc.integer({ min: 1, max: 3 }),
      fc.nat(100),
      (layers, heads, budget) => {
        const lengths = Array.from({ length: layers }, () => new Array<number>(heads).fill(2 * budget));
        const { budgets } = planBudgets(compile(__camel__()), budget, lengths);
        const want = oracle(budget, layers);
        expect(budgets.flat().reduce((a, b) => a + b)).toBe(budget * layers * heads);
        budgets.forEach((row, layer) =>
          row.forEach((share) => expect(Math.abs(share - want.get(layer))).toBeLessThan(1)),
        );
      },
    ),
  );
});
