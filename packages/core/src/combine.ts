import { KvError, checkNumber } from './errors.ts';
import type { Cell, Draft, Hook, Step } from './atoms.ts';
import { allocated, budgetsOf, either, parts, SCORED_OR_UNITS, step } from './author.ts';
import type { Allocation, Common, Head, WithBudgets } from './author.ts';
import type { Ops } from './ops.ts';
import type { Piece, ScoreAllocator, Scored, Scorer, Weigher } from './piece.ts';
import { union } from './run.ts';
import type { Tensor } from './tensor.ts';
import { LOWEST } from './cpu/reduce.ts';

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

function combined<N extends string, P extends readonly AnyScorer[]>(
  name: N,
  text: string,
  inner: P,
  join: (ops: Ops, scores: readonly Tensor[], cell: Cell) => Tensor,
  keepsWeights: boolean,
): Combined<P, N> {
  const { hooks, needs, whole, reach, floor, run } = inside(name, inner);
  const piece = step(
    { name, whole, floor },
    ['start'],
    keepsWeights && inner.every((p) => p.to === 'weights') ? 'weights' : 'scores',
    {
      kind: 'scorer',
      needs,
      reach,
      run: (cells) => {
        const drafts = run(cells);
        return cells.map((cell, i) =>
          drafts.reduce<Draft>((draft, own) => merge(cell.ops, draft, own[i]), {
            ...cell.draft,
            scores: join(
              cell.ops,
              drafts.map((own) => own[i].scores!),
              cell,
            ),
          }),
        );
      },
    },
  );
  return { ...piece, label: text, atoms: [{ ...piece.atoms[0], label: text }, ...hooks] } as unknown as Combined<P, N>;
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
/** Scores of a combination of nothing: one row of a constant. */
const constant = (cell: Cell, value: number): Tensor =>
  cell.ops.from({ data: new Float32Array(cell.at.slots).fill(value), shape: [1, cell.at.slots] });

/** Σ of scorers; over nothing 0. Masks are united. */
export const sum = <const P extends readonly AnyScorer[]>(...scorers: P): Combined<P, 'sum'> =>
  combined(
    'sum',
    `sum(${scorers.map((s) => s.label).join(',')})`,
    scorers,
    (ops, s, cell) => (s.length === 0 ? constant(cell, 0) : s.reduce((a, b) => ops.add(a, b))),
    true,
  );

/**
 * The largest of the scorers at every slot; over nothing the lowest finite number. Associative, commutative,
 * idempotent.
 */
export const max = <const P extends readonly AnyScorer[]>(...scorers: P): Combined<P, 'max'> =>
  combined(
    'max',
    `max(${scorers.map((s) => s.label).join(',')})`,
    scorers,
    (ops, s, cell) => (s.length === 0 ? constant(cell, LOWEST) : s.reduce((a, b) => ops.max(a, b))),
    scorers.length > 0,
  );

/** Σ w_i times scorer i: linear in every w_i. Weights of the sum may be negative, so scores come out. */
export function weighted(...terms: readonly (readonly [weight: number, scorer: AnyScorer])[]): Scorer<'weighted'> {
  for (const [w] of terms) checkNumber('weighted', 'weight', w, 'a finite number', Number.isFinite);
  const text = `weighted(${terms.map(([w, s]) => `${w}*${s.label}`).join(',')})`;
  return combined(
    'weighted',
    text,
    terms.map(([, s]) => s),
    (ops, s, cell) =>
      s.length === 0 ? constant(cell, 0) : s.map((x, i) => ops.mul(x, terms[i][0])).reduce((a, b) => ops.add(a, b)),
    false,
  ) as unknown as Scorer<'weighted'>;
}
