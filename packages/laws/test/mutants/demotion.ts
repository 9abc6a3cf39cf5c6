import { demotion as makeDemotion, LEVELS } from '@kv/core';
import type {
  Demotion,
  DemotionContext,
  DraftSelection,
  LevelShares,
  Step,
  StepContext,
  StepInput,
  Tensor,
} from '@kv/core';
import { demotion } from '../../src/demotion.ts';
import { field, memory, peek, withPadding } from './field.ts';
import type { Field } from './field.ts';

type Context = DemotionContext & StepContext;
const COARSEST = LEVELS.length - 1;

/** A quarter of the kept slots in 8 bits, the best, and the others in 4. */
function quarter(
  ctx: Context,
  change: (ctx: Context) => Partial<Context> = () => ({}),
  more: Tensor | number = 0,
): Tensor {
  const { ops, scores, kept, forced } = { ...ctx, ...change(ctx) },
    others = ops.not(kept),
    count = ops.map('floor', ops.add(ops.mul(ops.sum(kept), 0.25), more)),
    held = forced && ops.mul(forced, kept),
    most = held && ops.count(held),
    best =
      held && most
        ? ops.max(
            ops.top(scores, ops.min(count, most), { banned: ops.not(held) }),
            ops.top(scores, ops.max(ops.sub(count, most), 0), { banned: ops.union(held, others) }),
          )
        : ops.top(scores, count, { banned: others });
  return ops.sub(COARSEST, ops.mul(best, 2));
}
const made = (
  name: string,
  run: (ctx: Context) => Tensor = (ctx) => quarter(ctx),
  shares: LevelShares = { q8: 0.25, q4: 0.75 },
): Demotion => makeDemotion(name, { shares: () => shares }, run)();
/** Changes what a step finds or leaves, which a declared demotion cannot do. */
function changed(
  name: string,
  found: (cell: StepInput) => DraftSelection,
  left: (after: DraftSelection, cell: StepInput) => DraftSelection = (after) => after,
): Demotion {
  const good = made(name),
    step = good.atoms[0] as Step;
  return {
    ...good,
    atoms: [
      {
        ...step,
        run: (cells) =>
          step.run(cells.map((cell) => ({ ...cell, draft: found(cell) }))).map((after, i) => left(after, cells[i])),
      } satisfies Step,
    ],
  };
}
const known = memory();
export const demotions: Field = field('demotion', demotion, {
  good: made('quarter'),
  mutants: {
    chain: made('beyond', (ctx) => ctx.ops.mul(quarter(ctx), 1.5)),
    kept: changed('keeps the worst', ({ ops, draft }) => ({
      ...draft,
      kept: ops.select(ops.mul(draft.scores ?? 0, -1), draft.budgets, draft),
    })),
    order: made('worst first', (ctx) =>
      quarter(ctx, ({ ops, scores }) => ({ scores: ops.mul(scores, -1), forced: ops.fill(scores, 0) })),
    ),
    ties: made('late ties', (ctx) =>
      quarter(ctx, ({ ops, scores }) => ({
        scores: ops.add(scores, ops.mul(ops.rank(ops.fill(scores, 0), 'row'), 1e-7)),
      })),
    ),
    idempotent: changed(
      'sinks',
      ({ draft }) => draft,
      (after, { ops, draft: { levels } }) =>
        levels ? { ...after, levels: ops.min(ops.add(levels, 1), COARSEST) } : after,
    ),
    coarser: changed('promotes', ({ draft: { levels: _, ...draft } }) => draft),
    equivariant: made('knows places', (ctx) => {
      const { ops, scores, kept } = ctx,
        places = ops.rank(ops.fill(scores, 0), 'row'),
        top = ops.top(scores, ops.fill(ops.sum(kept), 1), { banned: ops.not(kept) }),
        place = ops.sum(ops.mul(top, places)),
        odd = ops.sub(place, ops.mul(ops.map('floor', ops.div(place, 2)), 2));
      return quarter(ctx, undefined, ops.mul(odd, -1));
    }),
    shares: made('says less', (ctx) => quarter(ctx), { q8: 0.1, q4: 0.9 }),
    uniform: changed(
      'coarse after any allocator',
      ({ draft }) => draft,
      (after, { ops, allot }) =>
        allot && after.levels ? { ...after, levels: ops.fill(after.levels, COARSEST) } : after,
    ),
    total: made('takes what it had and more', (ctx) => {
      const count = ctx.ops.map('floor', ctx.ops.mul(ctx.ops.sum(ctx.kept), 0.25)),
        [given] = ctx.allot([count]);
      return quarter(ctx, undefined, ctx.ops.max(0, ctx.ops.sub(given, count)));
    }),
    monotone: made('even numbers', (ctx) => {
      const half = ctx.ops.div(ctx.ops.sum(ctx.kept), 2),
        odd = ctx.ops.less(ctx.ops.map('floor', half), half);
      return quarter(ctx, undefined, ctx.ops.mul(odd, -64));
    }),
    padding: made('sees padding', (ctx) =>
      quarter(ctx, undefined, ctx.ops.mul(ctx.ops.less(withPadding(ctx.ops, ctx.scores), 1e9), -1)),
    ),
    pure: changed(
      'remembers',
      ({ draft }) => draft,
      (after, { ops, draft: { levels, scores } }) =>
        !levels && scores && after.levels && known(scores)
          ? { ...after, levels: ops.fill(after.levels, COARSEST) }
          : after,
    ),
    traced: made('reads', (ctx) => {
      peek(ctx.scores);
      return quarter(ctx);
    }),
  },
});
