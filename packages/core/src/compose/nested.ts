import type { LayerContext, StepInput, DraftSelection, ForcedEnds, Hook, Step } from '../piece/atoms.ts';
import { runStep } from '../event/boundary.ts';
import { LOWEST } from '../tensor/tensor.ts';
import { factory } from '../piece/declare.ts';
import type { DeclarationFields, Factory } from '../piece/declare.ts';
import { KvError } from '../tensor/errors.ts';
import { forcerOf } from '../event/forced.ts';
import { leaveBudgets, mergeMasks, onBudgetRows } from '../piece/drafts.ts';
import { LATER } from '../piece/kinds.ts';
import type { AllocatorOutput, StepContext, WithRows } from '../piece/piece-declaration.ts';
import type { Ops } from '../tensor/maths.ts';
import type { Options, ResolvedOptions } from '../piece/option.ts';
import { endsOf, minSlotsOf } from '../event/min-slots.ts';
import { PROTOCOL } from '../piece/piece.ts';
import type { Piece, ScorePhase } from '../piece/piece.ts';
import { union } from '../event/run.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** A scorer, of scores or of weights. */
export type AnyScorer = Piece<'start', ScorePhase>;
/** Weights if every part gives weights, scores otherwise. */
type Joined<P extends readonly AnyScorer[], N extends string> = Piece<
  'start',
  P[number]['to'] extends 'weights' ? 'weights' : 'scores',
  N
>;
type Term = readonly [weight: number, scorer: AnyScorer];

/**
 * Returns helpers for scorers inside another piece: their steps run on drafts of their own, their hooks are added to
 * the policy.
 * @param name the piece, for errors
 * @throws KvError for a piece that is no scorer
 */
export function inside(name: string, scorers: readonly AnyScorer[]) {
  const wrong = scorers.find(({ from, to }) => !from.includes('start') || (to !== 'scores' && to !== 'weights'));
  if (wrong) throw new KvError(name, `takes scorers, but '${wrong.name}' leaves ${wrong.to}`);
  const steps = scorers.map((p) => p.atoms.filter((a): a is Step => a.at === 'event'));
  const all = steps.flat();
  return {
    hooks: scorers.flatMap((p) => p.atoms.filter((a): a is Hook => a.at !== 'event')),
    needs: union(...all.map((s) => s.needs)),
    needsFullPrompt: all.some((s) => s.needsFullPrompt),
    reach: all.some((s) => s.reach === 'model') ? ('model' as const) : ('layer' as const),
    ends: (budget: number): ForcedEnds => endsOf(all, budget),
    minSlots: (slots: number, budget: number): number => minSlotsOf(all, slots, budget),
    open: all.some((s) => s.open === true),
    forcers: all.flatMap((s) => s.forcers ?? []),
    /** Returns one draft per scorer and cell. */
    run: (cells: readonly StepInput[]): readonly (readonly DraftSelection[])[] =>
      steps.map((chain) =>
        chain.reduce<readonly DraftSelection[]>(
          (drafts, s) =>
            runStep(
              s,
              cells.map((c, i) => ({ ...c, draft: drafts[i] })),
            ),
          cells.map(({ draft: { budgets, state } }) => ({ budgets, state, checks: [] })),
        ),
      ),
  };
}

type Join = (ops: Ops, terms: readonly (readonly [weight: number, scores: Tensor])[], at: LayerContext) => Tensor;
/** Returns the piece that combines scorers into one. */
function combined(name: string, label: string, terms: readonly Term[], keepsWeights: boolean, join: Join): Piece {
  const { hooks, run, ...rest } = inside(
    name,
    terms.map(([, scorer]) => scorer),
  );
  const step: Step = {
    at: 'event',
    kind: 'scorer',
    name,
    label,
    ...rest,
    run(cells) {
      const drafts = run(cells);
      return cells.map((cell, i) => {
        const parts = drafts.map((of) => of[i]);
        const scores = join(
          cell.ops,
          terms.map(([w], t) => [w, parts[t].scores as Tensor]),
          cell.at,
        );
        return parts.reduce((draft, part) => mergeMasks({ ...cell, draft }, part), { ...cell.draft, scores });
      });
    },
  };
  const weights = keepsWeights && terms.every(([, { to }]) => to === 'weights');
  return {
    protocol: PROTOCOL,
    from: ['start'],
    to: weights ? 'weights' : 'scores',
    name,
    label,
    atoms: [step, ...hooks],
  };
}
/** A function that combines any number of scorers into one. */
type Combiner<N extends string> = (<const P extends readonly AnyScorer[]>(...scorers: P) => Joined<P, N>) &
  Pick<Factory<{}, Piece>, 'description' | 'options'>;

const combiner = <N extends string>(name: N, says: string, join: Join, empty: number): Combiner<N> =>
  factory<{}, Piece, readonly AnyScorer[]>(
    name,
    { source: '@kv/core', says },
    { kind: 'scorer', takes: 'scorers', from: ['start'] },
    (_o, label, ...scorers) =>
      // an empty sum is weights of 0; the lowest number is not a weight
      combined(
        name,
        label,
        scorers.map((s) => [1, s]),
        scorers.length > 0 || empty >= 0,
        orConstant(join, empty),
      ),
  ) as unknown as Combiner<N>;
/** Scores of an empty combination: one row of a constant. */
const orConstant =
  (join: Join, x: number): Join =>
  (ops, terms, at) =>
    terms.length > 0
      ? join(ops, terms, at)
      : ops.from({ data: new Float32Array(at.slots).fill(x), shape: [1, at.slots] });

/** Sums scorers; 0 if there are none. Masks are united. */
export const sum: Combiner<'sum'> = combiner(
  'sum',
  'The sum of scorers; over nothing 0.',
  (ops, terms) => terms.map(([, s]) => s).reduce((a, b) => ops.add(a, b)),
  0,
);
/**
 * Takes the largest of the scorers at every slot; the lowest finite number if there are none. Associative, commutative,
 * idempotent.
 */
export const max: Combiner<'max'> = combiner(
  'max',
  'The largest of scorers at every slot.',
  (ops, terms) => terms.map(([, s]) => s).reduce((a, b) => ops.max(a, b)),
  LOWEST,
);

type Weighted = ((...terms: readonly Term[]) => Piece<'start', 'scores', 'weighted'>) &
  Pick<Factory<{}, Piece>, 'description' | 'options'>;
/**
 * Sums w_i times scorer i: linear in every w_i. Weights may be negative, so the result is scores.
 * @example
 * ```ts
 * weighted([0.5, recency()], [1, snapkv({ window: 32 })])
 * ```
 */
export const weighted: Weighted = factory<{}, Piece, readonly Term[]>(
  'weighted',
  { source: '@kv/core', says: 'A weighted sum of scorers.' },
  { kind: 'scorer', takes: 'terms', from: ['start'], to: 'scores' },
  (_o, label, ...terms) =>
    combined(
      'weighted',
      label,
      terms,
      false,
      orConstant((ops, all) => all.map(([w, s]) => ops.mul(s, w)).reduce((a, b) => ops.add(a, b)), 0),
    ),
) as unknown as Weighted;

/**
 * Declares an allocator for one layer that also reads the scores of a second scorer, `by`, one row per budget. The
 * masks of the two are united.
 * @param name the piece's name
 * @param declared its options, signals and source
 * @param run its equation
 */
export function allocatorBy<const N extends string, O extends Options = {}>(
  name: N,
  declared: DeclarationFields<O> & {
    readonly minSlots?: (options: ResolvedOptions<O>, slots: number, budget: number) => number;
    /** It leaves budgets unchanged, and forces or bans slots within them. @defaultValue false */
    readonly forces?: boolean;
  },
  run: (ctx: StepContext & WithRows & { readonly by: Tensor }, options: ResolvedOptions<O>) => AllocatorOutput,
): Factory<O, Piece<ScorePhase | 'units', 'same', N>, [by: AnyScorer]> {
  return factory<O, Piece<ScorePhase | 'units', 'same', N>, [by: AnyScorer]>(
    name,
    declared,
    { kind: 'allocator', takes: 'scorer', from: LATER, to: 'same' },
    (o, label, by) => {
      const { hooks, run: runInside, minSlots, ends, ...rest } = inside(name, [by]);
      const step: Step = {
        at: 'event',
        kind: 'allocator',
        name,
        label,
        ...rest,
        ...(declared.forces && { forces: true }),
        ...(declared.minSlots === undefined && { ends }),
        minSlots: (n, budget) => minSlots(n, budget) + (declared.minSlots?.(o, n, budget) ?? 0),
        forcers: [...rest.forcers, ...(declared.minSlots ? [forcerOf(name, o)] : [])],
        run(cells) {
          const [drafts] = runInside(cells);
          return cells.map((outer, i) => {
            const cell = { ...outer, draft: mergeMasks(outer, drafts[i]) };
            const { scores } = onBudgetRows({ ...outer, draft: { ...outer.draft, ...drafts[i] } });
            const { ops, at } = cell;
            return leaveBudgets(cell, run({ ops, at, ...onBudgetRows(cell), by: scores }, o), {
              name,
              label,
              needs: rest.needs,
            });
          });
        },
      };
      return { protocol: PROTOCOL, from: LATER, to: 'same', name, label, atoms: [step, ...hooks] } as never;
    },
  );
}
