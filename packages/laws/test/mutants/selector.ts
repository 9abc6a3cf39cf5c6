import { kernel, selector as makeSelector } from '@kv/core';
import type { Ops, StepContext, SelectorContext, Selector, Tensor } from '@kv/core';
import { selector } from '../../src/selector.ts';
import { field, map, memory, peek, sizes, withPadding } from './field.ts';
import type { Field } from './field.ts';

type Context = SelectorContext & StepContext;
const made = (
  name: string,
  change: (ctx: Context) => Partial<Context> = () => ({}),
  finish: (kept: Tensor, ctx: Context) => Tensor = (k) => k,
): Selector =>
  makeSelector(name, {}, (ctx) => {
    const { scores, budgets, forced, banned, active } = { ...ctx, ...change(ctx) };
    return finish(ctx.ops.select(scores, budgets, { forced, banned, active }), ctx);
  })();
const descending = map('descending', 'u32', (x, out, slots, lengths) =>
  lengths.forEach((n, r) => {
    for (let i = 0; i < n; i++) out[r * slots + i] = x[r * slots + n - 1 - i];
  }),
);
/** Replaces the last kept slot by one that does not exist, unless it is forced or all are kept. */
const beyond = kernel({
  id: 'beyond',
  inputs: { kept: 'u32', forced: 'f32', sizes: 'f32' },
  ragged: 'kept',
  per: 'row',
  wgsl: '',
  output: { dtype: 'u32', shape: ({ kept }) => kept },
  ref({ kept, forced, sizes: n }, _, out, lengths) {
    out.set(kept.data as Uint32Array);
    const slots = kept.shape[1];
    lengths.forEach((count, r) => {
      const last = r * slots + count - 1;
      if (count > 0 && count < n.data[r] && forced.data[r * slots + kept.data[last]] === 0) out[last] = slots;
    });
  },
});
const flip = (ops: Ops, s: Tensor, when: Tensor | number): Tensor =>
  ops.mul(s, ops.sub(1, ops.mul(ops.add(ops.fill(s, 0), when), 2)));
const known = memory();
export const selectors: Field = field('selector', selector, {
  good: made('best'),
  mutants: {
    size: made('one less', ({ ops, scores, budgets }) => ({
      budgets: ops.sub(budgets, ops.less(budgets, sizes(ops, scores))),
    })),
    all: made('never all', ({ ops, scores, budgets }) => ({
      budgets: ops.min(budgets, ops.sub(sizes(ops, scores), ops.atLeast(budgets, sizes(ops, scores)))),
    })),
    forced: made('ignores forced', () => ({ forced: 0 })),
    banned: made('ignores banned', ({ ops, scores, budgets, banned }) => ({
      banned: 0,
      budgets: banned ? ops.min(budgets, ops.sub(sizes(ops, scores), ops.sum(banned))) : budgets,
    })),
    ascending: made('descends', undefined, (kept, { ops }) => ops.kernel(descending, { x: kept })),
    range: made('beyond', undefined, (kept, { ops, scores, forced }) =>
      ops.kernel(beyond, { kept, forced: forced || ops.fill(scores, 0), sizes: sizes(ops, scores) }),
    ),
    ties: made('late ties', ({ ops, scores }) => ({
      scores: ops.add(scores, ops.mul(ops.rank(ops.fill(scores, 0), 'row'), 1e-3)),
    })),
    nested: made('odd budgets turn round', ({ ops, scores, budgets }) => ({
      scores: flip(ops, scores, ops.sub(budgets, ops.mul(ops.map('floor', ops.div(budgets, 2)), 2))),
    })),
    padding: made('sees padding', ({ ops, scores }) => ({
      scores: flip(ops, scores, ops.less(withPadding(ops, scores), 1)),
    })),
    pure: made('remembers', ({ ops, scores }) => ({ scores: flip(ops, scores, known(scores) ? 1 : 0) })),
    traced: made('reads', ({ scores }) => {
      peek(scores);
      return {};
    }),
  },
});
