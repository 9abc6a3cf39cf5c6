import {
  allocator,
  allocatorBy,
  compose,
  demotion,
  scoreAllocator,
  selector,
  unitSelector,
  weightAllocator,
  weightSelector,
} from '@kv/core';
import type { Policy } from '@kv/core';
import { cut, first, newest, plain, topK, weights } from './correct-pieces.ts';
import type { FaultPoint, FaultSupplier } from './fault-point.ts';
import { content, counts, slots, spoiltValues } from './faulty-values.ts';
import type { FaultContext } from './faulty-values.ts';
import { EMPTY, LESS, NOTHING, optional } from './harmless.ts';

const budgets = (name: string, policy: (supply: FaultSupplier) => Policy): FaultPoint => ({
  name: `${name}, budgets`,
  when: 'event',
  takes: 'tensor',
  numbers: [...spoiltValues, ...content(1.5, 1e9)],
  harmless: optional,
  policy,
});
const keeping = (name: string, policy: (supply: FaultSupplier) => Policy): FaultPoint => ({
  name: `${name}, kept slots`,
  when: 'event',
  takes: 'tensor',
  wide: true,
  numbers: slots,
  harmless: { 'no slots': LESS },
  policy,
});

/** Points where allocators and selectors give something. */
export const budgetFaults: readonly FaultPoint[] = [
  budgets('score allocator', (supply) =>
    compose(plain, scoreAllocator('hostile', {}, (ctx) => ({ budgets: supply(ctx.budgets, ctx) }))(), topK),
  ),
  budgets('weight allocator', (supply) =>
    compose(weights, weightAllocator('hostile', {}, (ctx) => ({ budgets: supply(ctx.budgets, ctx) }))(), topK),
  ),
  budgets('allocator by a scorer', (supply) =>
    compose(plain, allocatorBy('hostile', {}, (ctx) => ({ budgets: supply(ctx.budgets, ctx) }))(plain), topK),
  ),
  {
    name: 'score allocator, its whole result',
    when: 'event',
    takes: 'anything',
    harmless: { 'an empty object': EMPTY },
    policy: (supply) =>
      compose(plain, scoreAllocator('hostile', {}, (ctx) => supply({ budgets: ctx.budgets }, ctx))(), topK),
  },
  {
    name: 'allocator, a plan',
    when: 'event',
    takes: 'anything',
    policy: (supply) => compose(plain, allocator('hostile', {}, (plan) => supply(plan, {} as FaultContext))(), topK),
  },
  {
    name: 'allocator, a budget',
    when: 'event',
    takes: 'anything',
    numbers: [...counts, { name: '1e9', of: () => 1e9 }],
    policy: (supply) =>
      compose(
        plain,
        allocator('hostile', {}, ({ budgets: [[, ...heads], ...rest], ...plan }) => ({
          ...plan,
          budgets: [[supply(1, {} as FaultContext), ...heads], ...rest],
        }))(),
        topK,
      ),
  },
  {
    name: 'allocator, budgets of a layer',
    when: 'event',
    takes: 'anything',
    policy: (supply) =>
      compose(
        plain,
        allocator('hostile', {}, ({ budgets: [layer, ...rest], ...plan }) => ({
          ...plan,
          budgets: [supply(layer, {} as FaultContext), ...rest],
        }))(),
        topK,
      ),
  },
  {
    name: 'allocator, notes',
    when: 'event',
    takes: 'anything',
    harmless: { ...optional, 'an empty array': NOTHING },
    policy: (supply) =>
      compose(plain, allocator('hostile', {}, (plan) => ({ ...plan, notes: supply([], {} as FaultContext) }))(), topK),
  },
  keeping('selector', (supply) =>
    compose(plain, selector('hostile', {}, (ctx) => supply(first(ctx, ctx.at.budget), ctx))()),
  ),
  keeping('weight selector', (supply) =>
    compose(weights, weightSelector('hostile', {}, (ctx) => supply(first(ctx, ctx.at.budget), ctx))()),
  ),
  keeping('unit selector', (supply) =>
    compose(plain, cut, unitSelector('hostile', {}, (ctx) => supply(first(ctx, ctx.at.budget), ctx))()),
  ),
  {
    name: 'demotion, levels',
    when: 'event',
    takes: 'tensor',
    numbers: [...spoiltValues, ...content(0.5, 5)],
    policy: (supply) =>
      compose(newest, topK, demotion('hostile', {}, (ctx) => supply(ctx.ops.fill(ctx.scores, 2), ctx))()),
  },
];
