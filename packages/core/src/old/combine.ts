import { KvError, checkNumber } from '../errors.ts';
import type { Cell, Draft, Hook, Step } from '../atoms.ts';
import { allocated, budgetsOf, either, parts, SCORED_OR_UNITS, step } from './author.ts';
import type { Allocation, Common, Head, WithBudgets } from './author.ts';
import type { Ops } from '../maths.ts';
import type { Piece, ScoreAllocator, Scored, Scorer, Weigher } from '../piece.ts';
import { union } from '../run.ts';
import type { Tensor } from '../tensor.ts';
import { LOWEST } from '../cpu/reduce.ts';

type AnyScorer = Piece<'start', Scored>;
/** Weights where every part gives weights, scores otherwise. */
type Combined<P extends readonly AnyScorer[], N extends string> = P[number]['to'] extends 'weights'
  ? Weigher<N>
  : Scorer<N>;

/** Scorers inside another piece: their steps run on drafts of their own, their hooks come along. */
function inside(name: string, inner: readonly AnyScorer[]) {
  for (const piece of inner)
    if (piece.to !== 'scores' && piece.to !== 'weights')
      throw new KvError(name, `takes scorers, but '${piece.name}' leaves ${piece.to}`);
  const steps = inner.map((p) => p.atoms.filter((a): a is Step => a.at === 'event'));
  const all = steps.flat();
  return {
    hooks: inner.flatMap((p) => p.atoms.filter((a): a is Hook => a.at !== 'event')),
    needs: union(...all.map((s) => s.needs)),
    whole: all.some((s) => s.whole),
    reach: all.some((s) => s.reach === 'model') ? ('model' as const) : ('layer' as const),
    floor: (slots: number, budget: number): number => all.reduce((sum, s) => sum + s.floor(slots, budget), 0),
    /** One draft a scorer and cell. */
    run: (cells: readonly Cell[]): readonly (readonly Draft[])[] =>
      steps.map((own) =>
        own.reduce<readonly Draft[]>(
          (drafts, s) => s.run(cells.map((c, i) => ({ ...c, draft: drafts[i] }))),
          cells.map(({ draft: { budgets, state } }) => ({ budgets, state, checks: [] })),
        ),
      ),
  };
}

/**
 * An allocator of one layer that reads the scores of a second scorer, `by`, in the rows that it leaves. Masks of the
 * two are united.
 */
export function allocatorBy<const N extends string>(
  head: Head<N>,
  by: AnyScorer,
  run: (ctx: Common & WithBudgets & { readonly by: Tensor }) => Allocation,
): ScoreAllocator<N> {
  const own = parts(head),
    { floor = 0 } = own,
    inner = inside(own.name, [by]);
  const piece = step(
    {
      ...own,
      whole: own.whole === true || inner.whole,
      floor: (n, budget) => inner.floor(n, budget) + (typeof floor === 'number' ? floor : floor(n, budget)),
    },
    SCORED_OR_UNITS,
    'same',
    {
      kind: 'allocator',
      needs: inner.needs,
      reach: inner.reach,
      run: (cells) => {
        const [drafts = []] = inner.run(cells);
        return cells.map((outer, i) => {
          const cell = { ...outer, draft: merge(outer.ops, outer.draft, drafts[i]) };
          return allocated(
            cell,
            own.name,
            inner.needs,
            run({ ops: cell.ops, at: cell.at, ...budgetsOf(cell, own.name), by: drafts[i].scores! }),
          );
        });
      },
    },
  );
  return { ...piece, atoms: [...piece.atoms, ...inner.hooks] };
}

function merge(ops: Ops, into: Draft, part: Draft): Draft {
  const forced = either(ops, into.forced, part.forced),
    banned = either(ops, into.banned, part.banned);
  return {
    ...into,
    ...(forced && { forced }),
    ...(banned && { banned }),
    state: new Map([...into.state, ...part.state]),
    checks: [...into.checks, ...part.checks],
  };
}
