import { describe, test } from 'vitest';
import { allocatorLaws, each } from '@kv/laws';
import { linearBudgets, roundedLinearBudgets } from '../src/index.ts';

describe('linearBudgets()', () => {
  each(allocatorLaws(linearBudgets()), test);
});
describe('linearBudgets(beta=2)', () => {
  each(allocatorLaws(linearBudgets({ beta: 2 })), test);
});
// every layer is rounded by itself
describe('roundedLinearBudgets(window=2)', () => {
  each(allocatorLaws(roundedLinearBudgets({ window: 2 }), { slack: (layers, heads) => (layers * heads) / 2 }), test);
});
