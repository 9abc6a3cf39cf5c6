import type { BudgetPlan, DraftSelection, Step, StepInput, StepKind, Units } from './atoms.ts';
import { factory } from './declare.ts';
import { expectEquation } from './expect-declared.ts';
import type { DeclarationFields, Factory } from './declare.ts';
import { needsOf, ofOptions } from './piece-declaration.ts';
import type {
  AllocatorOutput,
  DemotionContext,
  PieceDeclaration,
  Run,
  Scores,
  SelectorContext,
  SignalReaders,
  StepContext,
  UnitCut,
  UnitScores,
  WithRows,
  WithScores,
  WithUnits,
} from './piece-declaration.ts';
import {
  context,
  leaveBudgets,
  leaveKept,
  leaveLevels,
  leaveScores,
  leaveUnits,
  leaveUnitScores,
  onBudgetRows,
  onKeptRows,
  onSelectRows,
  reduced,
  withScores,
  withUnits,
} from './drafts.ts';
import type { StepAuthor } from './drafts.ts';
import { forcerOf } from '../event/forced.ts';
import type { Options, ResolvedOptions } from './option.ts';
import { PROTOCOL } from './piece.ts';
import type { Phase, Piece, ScorePhase } from './piece.ts';
import type { AnySignal } from './signals.ts';
import { range } from '../tensor/range.ts';
import type { Tensor } from '../tensor/tensor.ts';

/** A kind of the algebra: what its equation reads from a draft, and how the result changes the draft. */
interface KindDefinition<C, R> {
  readonly kind: StepKind;
  readonly from: readonly Phase[];
  readonly to: Phase | 'same';
  readonly read: (cell: StepInput) => C;
  readonly leave: (cell: StepInput, result: R, by: StepAuthor) => DraftSelection;
}

/** Returns the piece of a declaration with resolved options. */
function stepOf<O extends Options, S extends readonly AnySignal[], C, X, R>(
  name: string,
  definition: KindDefinition<C, R>,
  declared: PieceDeclaration<O, S, C, X>,
  run: Run<O, S, C, X, R>,
  o: ResolvedOptions<O>,
  label: string,
): Piece {
  const {
    ends,
    minSlots,
    open = false,
    needsFullPrompt = false,
    monotone,
    choosesBudget,
    approximate,
    beforeSelector,
    acrossLayers,
    reach,
    hooks,
    shares,
  } = declared;
  const by: StepAuthor = {
      name,
      label,
      needs: needsOf(name, declared, o),
    },
    loop = declared.loop?.(o);
  const step: Step = {
    at: 'event',
    kind: definition.kind,
    ...by,
    needsFullPrompt,
    ...(definition.to === 'weights' && { weights: true }),
    ...(monotone && { monotone }),
    ...(choosesBudget && { choosesBudget }),
    ...(approximate && { approximate }),
    ...(beforeSelector && { beforeSelector }),
    ...(loop && { loop }),
    ...(shares && { shares: shares(o) }),
    reach: ofOptions(reach ?? (acrossLayers ? 'model' : 'layer'), o),
    open: ofOptions(open, o),
    ...(minSlots && { minSlots: (slots: number, budget: number) => minSlots(o, slots, budget) ?? 0 }),
    ...(ends && { ends: (budget: number) => ends(o, budget) }),
    ...((minSlots || ends) && { forcers: [forcerOf(name, o)] }),
    run(cells) {
      const layers = cells.map(
        (cell, index) =>
          Object.assign(context(cell, by, declared), definition.read(cell), { index }) as unknown as StepContext &
            SignalReaders<S> &
            C & { readonly index: number },
      );
      const value = acrossLayers?.(layers, o) as X;
      return cells.map((cell, i) =>
        definition.leave(cell, run(Object.assign(layers[i], { acrossLayers: value }), o), by),
      );
    },
  };
  return {
    protocol: PROTOCOL,
    from: definition.from,
    to: definition.to,
    name,
    label,
    atoms: [step, ...(hooks?.(o) ?? []).flatMap((h) => h.atoms)],
  };
}

const START: readonly Phase[] = ['start'];
const SCORED: readonly Phase[] = ['scores', 'weights'];
export const LATER: readonly Phase[] = [...SCORED, 'units'];
const nothing = () => ({});
const selecting = (cell: StepInput): SelectorContext => {
  const { units, unitScores } = cell.draft;
  return {
    ...onSelectRows(cell),
    units: units && { ...units, of: unitsOf(cell, units) },
    unitScores: unitScores && reduced(cell, 'mean', unitScores),
  };
};
/** Returns the units of the rows that select: heads that select as one hold the same tokens, so the first row is theirs. */
function unitsOf({ ops, at }: StepInput, { of }: Units): Tensor {
  const [rows, slots] = of.shape;
  if (rows <= at.selectRows) return of;
  return ops.take(ops.reshape(of, [1, rows * slots]), ops.from({ data: range(0, slots), shape: [1, slots] }, 'u32'));
}
/** Declares a piece of one kind: its name, its declaration, and its equation. */
export type Author<F extends Phase, T extends Phase | 'same', C, R> = <
  const N extends string,
  const S extends readonly AnySignal[] = [],
  O extends Options = {},
  X = undefined,
>(
  name: N,
  declared: PieceDeclaration<O, S, C, X>,
  run: Run<O, S, C, X, R>,
) => Factory<O, Piece<F, T, N>>;
function author<C, R>(
  kind: StepKind,
  from: readonly Phase[],
  to: Phase | 'same',
  read: KindDefinition<C, R>['read'],
  leave: KindDefinition<C, R>['leave'],
): Author<any, any, any, any> {
  const definition = { kind, from, to, read, leave, fields: FIELDS };
  return (name, declared, run) => {
    const made = factory(
      name,
      declared,
      definition,
      (o, label) => stepOf(name, definition, declared, run as never, o, label) as never,
      (o) => needsOf(name, declared, o),
    );
    expectEquation(name, run);
    return made;
  };
}
/** Fields of a declaration of a kind, in addition to those of every declaration. */
const FIELDS =
  'needs ends minSlots open needsFullPrompt monotone choosesBudget approximate beforeSelector shares hooks acrossLayers reach loop'.split(
    ' ',
  );

/** Declares a scorer: signals to scores `[H | G | 1, n]`, higher = keep. */
export const scorer: Author<'start', 'scores', {}, Scores> = author('scorer', START, 'scores', nothing, leaveScores);
/** Declares a scorer whose scores are weights: at least 0, checked at every event. */
export const weightScorer: Author<'start', 'weights', {}, Scores> = author(
  'scorer',
  START,
  'weights',
  nothing,
  leaveScores,
);
/** Declares a transform of scores whose results may be negative. */
export const transform: Author<ScorePhase, 'scores', WithScores, Scores> = author(
  'transform',
  SCORED,
  'scores',
  withScores,
  leaveScores,
);
/** Declares a transform that maps weights to weights, and scores to scores. */
export const scoreTransform: Author<ScorePhase, 'same', WithScores, Scores> = author(
  'transform',
  SCORED,
  'same',
  withScores,
  leaveScores,
);
/** Declares a transform of any scores into weights, checked at every event. */
export const normaliser: Author<ScorePhase, 'weights', WithScores, Scores> = author(
  'transform',
  SCORED,
  'weights',
  withScores,
  leaveScores,
);
/** Declares a transform of weights into weights (CAOTE), checked at every event. */
export const weightTransform: Author<'weights', 'weights', WithScores, Scores> = author(
  'transform',
  ['weights'],
  'weights',
  withScores,
  leaveScores,
);
/** Declares a unit: a partition of slots and a score for each block. */
export const unit: Author<ScorePhase, 'units', WithScores, UnitCut> = author(
  'unit',
  SCORED,
  'units',
  withScores,
  leaveUnits,
);
/** Declares a transform of unit scores. */
export const unitTransform: Author<'units', 'units', WithUnits, UnitScores> = author(
  'unit',
  ['units'],
  'units',
  withUnits,
  leaveUnitScores,
);
/**
 * Declares an allocator that reads scores: maps budgets `[selectRows, 1]` to budgets, or forces or bans slots within
 * them. After a selector it shares out how many slots a demotion stores at a level.
 */
export const scoreAllocator: Author<ScorePhase | 'units' | 'kept', 'same', WithRows, AllocatorOutput> = author(
  'allocator',
  [...LATER, 'kept'],
  'same',
  onBudgetRows,
  leaveBudgets,
);
/** Declares an allocator that needs weights: it reads how much weight its slots hold. */
export const weightAllocator: Author<'weights', 'same', WithRows, AllocatorOutput> = author(
  'allocator',
  ['weights'],
  'same',
  onBudgetRows,
  leaveBudgets,
);
/** Declares a selector: scores, budgets and masks to kept slots u32 `[rows, n]`, ascending and ragged. */
export const selector: Author<ScorePhase | 'units', 'kept', SelectorContext, Tensor> = author(
  'selector',
  LATER,
  'kept',
  selecting,
  leaveKept,
);
/** Declares a selector that needs weights. */
export const weightSelector: Author<'weights', 'kept', SelectorContext, Tensor> = author(
  'selector',
  ['weights'],
  'kept',
  selecting,
  leaveKept,
);
/** Declares a selector that needs units. */
export const unitSelector: Author<'units', 'kept', SelectorContext, Tensor> = author(
  'selector',
  ['units'],
  'kept',
  selecting,
  leaveKept,
);
/**
 * Declares a demotion: kept slots to the levels at which they are stored, f32 `[G | 1, n]`, indexes among `LEVELS`. Of
 * two demotions a slot takes the coarser level.
 */
export const demotion: Author<'kept', 'kept', DemotionContext, Tensor> = author(
  'demotion',
  ['kept'],
  'kept',
  onKeptRows,
  leaveLevels,
);

const PLANNED: readonly Phase[] = ['start', ...LATER];
/**
 * Declares an allocator that needs no scores: maps budgets of all layers and heads to budgets, whole numbers on the
 * host.
 */
export const allocator = <const N extends string, O extends Options = {}>(
  name: N,
  declared: DeclarationFields<O> & Pick<PieceDeclaration<O, readonly AnySignal[], unknown, unknown>, 'approximate'>,
  plan: (plan: BudgetPlan, options: ResolvedOptions<O>) => BudgetPlan,
): Factory<O, Piece<'start' | ScorePhase | 'units', 'same', N>> => {
  expectEquation(name, plan);
  return factory(
    name,
    declared,
    { kind: 'allocator', from: PLANNED, to: 'same', fields: ['approximate'] },
    (o, label) => {
      const step: Step = {
        at: 'event',
        kind: 'allocator',
        name,
        label,
        needs: [],
        reach: 'layer',
        needsFullPrompt: false,
        ...(declared.approximate && { approximate: true }),
        plan: (p) => plan(p, o),
        run: (cells) => cells.map((c) => c.draft),
      };
      return { protocol: PROTOCOL, from: PLANNED, to: 'same', name, label, atoms: [step] } as never;
    },
  );
};
