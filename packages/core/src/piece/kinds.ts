import { layerOf } from '../event/step-cache.ts';
import type {
  LayerContext,
  StepInput,
  DraftSelection,
  ForcedEnds,
  StepKind,
  BudgetPlan,
  Reach,
  Step,
  Units,
} from './atoms.ts';
import { factory } from './declare.ts';
import { forcerOf, forcersOf } from '../event/forced.ts';
import type { DeclarationFields, Factory } from './declare.ts';
import { expectObject } from '../event/boundary.ts';
import { KvError } from '../tensor/errors.ts';
import type { Mask, Ops } from '../tensor/maths.ts';
import type { Options, ResolvedOptions } from './option.ts';
import { PROTOCOL } from './piece.ts';
import type { HookPiece, Phase, Piece, ScorePhase } from './piece.ts';
import { isState } from './state.ts';
import type { AnySignal, Signal } from './signals.ts';
import type { Tensor } from '../tensor/tensor.ts';

// Inputs of an equation.

type Named<S> = S extends readonly AnySignal[]
  ? { readonly [X in S[number] as X['as']]: X extends Signal<string, infer V> ? V : never }
  : never;
type Keys<U> = U extends unknown ? keyof U : never;
type Get<U, K> = U extends unknown ? (K extends keyof U ? U[K] : never) : never;
/** Every signal under its name; optional where options decide whether it is read. */
export type SignalReaders<S, U = Named<S>> = { readonly [K in keyof U]: U[K] } & {
  readonly [K in Exclude<Keys<U>, keyof U>]?: Get<U, K>;
};
/** Operations, and where the step runs. */
export interface StepContext {
  /** Operations; their results are handles, which a piece never reads. */
  readonly ops: Ops;
  /** Layer, head counts, lengths and budget. */
  readonly at: LayerContext;
  /** Rows inside a view that need scores, f32 `[rows, 1]`; absent: all. Scores of other rows are ignored. */
  readonly active?: Tensor | undefined;
}
/** Scores `[H | G | 1, n]`, budgets `[selectRows, 1]` and masks left by the pieces before. */
export interface WithScores {
  /** f32 `[H | G | 1, n]`, higher stays. */
  readonly scores: Tensor;
  /** Slots to keep per row, whole numbers in f32, `[selectRows, 1]`. */
  readonly budgets: Tensor;
  /** Slots that must stay, counted inside the budget. */
  readonly forced: Mask;
  /** Slots that must go. */
  readonly banned: Mask;
}
/** The same on selection rows: means of scores and unions of masks over each GQA group. */
export interface WithRows extends WithScores {
  /** Scores before their rows were reduced; at least as many rows as `scores`. */
  readonly rawScores: Tensor;
}
/** Input of a unit transform: the partition, and a score for each unit. */
export interface WithUnits extends WithScores {
  /** The partition of the slots. */
  readonly units: Units;
  /** f32 `[rows, units.count]`. */
  readonly unitScores: Tensor;
}
/** Input of a selector. Unit scores are reduced to the same rows. */
export interface Selecting extends WithRows {
  /** The partition of the slots, if a unit has cut one. */
  readonly units: Units | undefined;
  /** f32 `[rows, units.count]`, reduced to the rows of the selection. */
  readonly unitScores: Tensor | undefined;
}

// Results of an equation.

type NewState = { readonly state?: Readonly<Record<string, Tensor>> | undefined };
type NewMasks = { readonly forced?: Mask | undefined; readonly banned?: Mask | undefined };
/** Result of a scorer or transform: scores `[H | G | 1, n]`, alone or with masks and new state. */
export type Scores = Tensor | ({ readonly scores: Tensor } & NewMasks & NewState);
/** Result of a unit: the partition, and the scores of the slots. */
export type UnitCut = { readonly units: Units; readonly scores: Tensor };
/** Result of a unit transform: a score for each unit, `[rows, units.count]`, alone or with new state. */
export type UnitScores =
  | Tensor
  | ({
      readonly unitScores: Tensor;
      /** Releases all forced slots. @defaultValue false */
      readonly release?: boolean;
    } & NewState);
/** Result of an allocator that reads scores: budgets `[selectRows, 1]`, masks and new state. What is absent stays. */
export type AllocatorOutput = { readonly budgets?: Tensor } & NewMasks & NewState;

// Fields of a declaration.

type OfOptions<O extends Options, T> = T | ((options: ResolvedOptions<O>) => T);
export interface PieceDeclaration<O extends Options, S extends readonly AnySignal[], C, X>
  extends DeclarationFields<O> {
  /** Signals that it reads. */
  readonly needs?: OfOptions<O, S>;
  /** Returns the first and last positions that it forces in every head, whatever the text is, at a budget. */
  readonly ends?: (options: ResolvedOptions<O>, budget: number) => ForcedEnds;
  /**
   * Returns the maximum number of slots that it forces in a head, from the slots present and the budget asked for.
   * @defaultValue those of `ends`
   */
  readonly minSlots?: (options: ResolvedOptions<O>, slots: number, budget: number) => number;
  /** It may force more slots than its floor, depending on the text. @defaultValue false */
  readonly open?: OfOptions<O, boolean>;
  /** It cannot run block-wise: it needs the whole prompt. @defaultValue false */
  readonly needsFullPrompt?: boolean;
  /** A transform that does not change which slots any top-k keeps. @defaultValue false */
  readonly monotone?: boolean;
  /**
   * An allocator that chooses the size itself: its event runs even if every head is within its budget.
   * @defaultValue false
   */
  readonly choosesBudget?: boolean;
  /** An allocator whose sum only approximates what was asked for, as in its paper. @defaultValue false */
  readonly approximate?: boolean;
  /** Further hooks that are added to the policy. */
  readonly hooks?: (options: ResolvedOptions<O>) => readonly HookPiece[];
  /**
   * Computes a value once over all the layers of `reach`. Each layer gets it as `shared`, and its own `index` among
   * them.
   */
  readonly acrossLayers?: (layers: readonly (StepContext & SignalReaders<S> & C)[], options: ResolvedOptions<O>) => X;
  /** @defaultValue 'model' with `acrossLayers`, else 'layer' */
  readonly reach?: OfOptions<O, Reach>;
}
type Run<O extends Options, S, C, X, R> = (
  ctx: StepContext & SignalReaders<S> & C & { readonly shared: X; readonly index: number },
  options: ResolvedOptions<O>,
) => R;

/** The piece that writes to a draft. */
export interface StepAuthor {
  readonly name: string;
  readonly label: string;
  readonly needs: readonly AnySignal[];
}
/** A kind of the algebra: what its equation reads from a draft, and how the result changes the draft. */
interface KindDefinition<C, R> {
  readonly kind: StepKind;
  readonly from: readonly Phase[];
  readonly to: Phase | 'same';
  /** Its scores are weights: at least 0. */
  readonly weights?: boolean;
  read(cell: StepInput): C;
  leave(cell: StepInput, result: R, by: StepAuthor): DraftSelection;
}

/** Returns the signals of a step, each under its name. */
export function context(
  cell: StepInput,
  { needs }: StepAuthor,
  declared: { readonly needs?: unknown },
): StepContext & Readonly<Record<string, unknown>> {
  const { ops, at, draft } = cell;
  return {
    // if options decide what is read, an equation may look for a signal that they left out
    __proto__: typeof declared.needs === 'function' ? undefined : cell.undeclared,
    ops,
    at,
    ...(draft.active && { active: draft.active }),
    ...Object.fromEntries(needs.map((s) => [s.as, cell.read(s)])),
  };
}

export const ofOptions = <O extends Options, T>(x: OfOptions<O, T>, o: ResolvedOptions<O>): T =>
  typeof x === 'function' ? (x as (options: ResolvedOptions<O>) => T)(o) : x;

/** Returns the piece of a declaration with resolved options. */
function stepOf<O extends Options, S extends readonly AnySignal[], C, X, R>(
  name: string,
  sort: KindDefinition<C, R>,
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
    acrossLayers,
    reach,
    hooks,
  } = declared;
  const by: StepAuthor = { name, label, needs: ofOptions(declared.needs ?? ([] as unknown as S), o) };
  const step: Step = {
    at: 'event',
    kind: sort.kind,
    ...by,
    needsFullPrompt,
    ...(sort.weights && { weights: true }),
    ...(monotone && { monotone }),
    ...(choosesBudget && { choosesBudget }),
    ...(approximate && { approximate }),
    reach: ofOptions(reach ?? (acrossLayers ? 'model' : 'layer'), o),
    open: ofOptions(open, o),
    ...(minSlots && { minSlots: (slots: number, budget: number) => minSlots(o, slots, budget) ?? 0 }),
    ...(ends && { ends: (budget: number) => ends(o, budget) }),
    ...((minSlots || ends) && { forcers: [forcerOf(name, o)] }),
    run(cells) {
      const layers = cells.map(
        (cell, index) =>
          Object.assign(context(cell, by, declared), sort.read(cell), { index }) as unknown as StepContext &
            SignalReaders<S> &
            C & { readonly index: number },
      );
      const shared = acrossLayers?.(layers, o) as X;
      return cells.map((cell, i) => sort.leave(cell, run(Object.assign(layers[i], { shared }), o), by));
    },
  };
  return {
    protocol: PROTOCOL,
    from: sort.from,
    to: sort.to,
    name,
    label,
    atoms: [step, ...(hooks?.(o) ?? []).flatMap((h) => h.atoms)],
  };
}

// Drafts in.

/** Scores of a draft. The error is given the piece and layer by whatever runs the step. */
const scoresOf = ({ draft: { scores } }: StepInput): Tensor => {
  if (!scores) throw new Error('expected scores of a piece before it, got none');
  return scores;
};
const withScores = (cell: StepInput): WithScores => {
  const { budgets, forced = 0, banned = 0 } = cell.draft;
  return { scores: scoresOf(cell), budgets, forced, banned };
};
const reduced = ({ ops, at }: StepInput, kind: 'mean' | 'max', x: Tensor): Tensor =>
  ops.reduceRows(kind, x, at.selectRows);
/** Returns scores and masks on selection rows: reduced over each group; one row for all heads stays one. */
export function onSelectRows(cell: StepInput): WithRows {
  const { scores, budgets, forced, banned } = withScores(cell);
  const mask = (x: Mask): Mask => x && reduced(cell, 'max', x);
  return {
    scores: reduced(cell, 'mean', scores),
    rawScores: scores,
    budgets,
    forced: mask(forced),
    banned: mask(banned),
  };
}
/** Returns the same with one row per budget. */
export function onBudgetRows(cell: StepInput): WithRows {
  const { ops } = cell;
  const rows = cell.draft.budgets.shape[0];
  const { scores, rawScores, budgets, forced, banned } = onSelectRows(cell);
  const each = (x: Tensor): Tensor => ops.broadcast(x, rows);
  return {
    scores: each(scores),
    rawScores: rawScores.shape[0] < rows ? each(rawScores) : rawScores,
    budgets,
    forced: forced && each(forced),
    banned: banned && each(banned),
  };
}
const withUnits = (cell: StepInput): WithUnits => {
  const { units, unitScores } = cell.draft;
  if (!units || !unitScores) throw new Error('expected units of a piece before it, got none');
  return { ...withScores(cell), units, unitScores };
};

// Drafts out.

const draftOf = (draft: { readonly [K in keyof DraftSelection]: DraftSelection[K] | undefined }): DraftSelection =>
  Object.fromEntries(Object.entries(draft).filter(([, v]) => v !== undefined)) as unknown as DraftSelection;
const joined = ({ ops, draft }: StepInput, { forced = 0, banned = 0 }: NewMasks): Partial<DraftSelection> =>
  ({
    forced: ops.union(draft.forced ?? 0, forced) || undefined,
    banned: ops.union(draft.banned ?? 0, banned) || undefined,
  }) as Partial<DraftSelection>;
/** Returns a draft's state with new state added, by signal id. */
export function stateOf(
  state: DraftSelection['state'],
  { name, needs }: StepAuthor,
  at: LayerContext,
  next: NewState['state'] = {},
): DraftSelection['state'] {
  expectObject({ name, layer: layerOf(at) }, 'new state by name', next);
  const own = Object.entries(next).map(([as, tensor]) => {
    const signal = needs.find((s) => isState(s) && s.as === as);
    if (!signal)
      throw new KvError(
        name,
        `writes the state '${as}', expected one of the states it declares (${
          needs
            .filter(isState)
            .map((s) => s.as)
            .join(', ') || 'none'
        })`,
      );
    return [signal.id, tensor] as const;
  });
  return new Map([...state, ...own]);
}
/** Returns the result of an equation as an object; a tensor alone becomes the field `key`. */
function fields<R extends object>(
  { name }: StepAuthor,
  { at }: StepInput,
  key: string,
  result: R | Tensor,
): Exclude<R, Tensor> {
  expectObject({ name, layer: layerOf(at) }, key, result);
  // host numbers count as a tensor here: the tensor check then describes them
  return ('shape' in result || 'length' in result ? { [key]: result } : result) as Exclude<R, Tensor>;
}
const leaveScores = (cell: StepInput, result: Scores, by: StepAuthor): DraftSelection => {
  const { scores, state, ...masks } = fields(by, cell, 'scores', result);
  const { draft } = cell;
  return draftOf({ ...draft, scores, ...joined(cell, masks), state: stateOf(draft.state, by, cell.at, state) });
};
const leaveUnits = (cell: StepInput, result: UnitCut, by: StepAuthor): DraftSelection => {
  const { units, scores } = fields(by, cell, 'units', result);
  return { ...cell.draft, units, unitScores: scores };
};
const leaveUnitScores = (cell: StepInput, result: UnitScores, by: StepAuthor): DraftSelection => {
  const { unitScores, release, state } = fields(by, cell, 'unitScores', result);
  const { draft } = cell;
  const forced = release ? undefined : draft.forced;
  return draftOf({ ...draft, unitScores, forced, state: stateOf(draft.state, by, cell.at, state) });
};
export const leaveBudgets = (cell: StepInput, result: AllocatorOutput, by: StepAuthor): DraftSelection => {
  const { draft } = cell;
  const { budgets = draft.budgets, state, ...masks } = fields(by, cell, 'budgets', result);
  return draftOf({ ...draft, budgets, ...joined(cell, masks), state: stateOf(draft.state, by, cell.at, state) });
};
const leaveKept = ({ draft }: StepInput, kept: Tensor): DraftSelection => ({ ...draft, kept });
/** Returns a draft with the masks, state and checks of another draft of the same cell added. */
export const mergeMasks = (cell: StepInput, part: DraftSelection): DraftSelection => {
  const { draft } = cell;
  return draftOf({
    ...draft,
    ...joined(cell, part),
    forcedBy: forcersOf(draft, part),
    state: new Map([...draft.state, ...part.state]),
    checks: [...draft.checks, ...part.checks],
  });
};

const START: readonly Phase[] = ['start'];
const SCORED: readonly Phase[] = ['scores', 'weights'];
export const LATER: readonly Phase[] = [...SCORED, 'units'];
const scores = { leave: leaveScores };
const weights = { leave: leaveScores, weights: true };
const nothing = { read: () => ({}) };
const written = { read: withScores };
const selecting = {
  leave: leaveKept,
  read: (cell: StepInput): Selecting => {
    const { units, unitScores } = cell.draft;
    return { ...onSelectRows(cell), units, unitScores: unitScores && reduced(cell, 'mean', unitScores) };
  },
};
const SORTS = {
  scorer: { kind: 'scorer', from: START, to: 'scores', ...nothing, ...scores },
  weightScorer: { kind: 'scorer', from: START, to: 'weights', ...nothing, ...weights },
  transform: { kind: 'transform', from: SCORED, to: 'scores', ...written, ...scores },
  scoreTransform: { kind: 'transform', from: SCORED, to: 'same', ...written, ...scores },
  normaliser: { kind: 'transform', from: SCORED, to: 'weights', ...written, ...weights },
  weightTransform: { kind: 'transform', from: ['weights'], to: 'weights', ...written, ...weights },
  unit: { kind: 'unit', from: SCORED, to: 'units', ...written, leave: leaveUnits },
  unitTransform: { kind: 'unit', from: ['units'], to: 'units', read: withUnits, leave: leaveUnitScores },
  scoreAllocator: { kind: 'allocator', from: LATER, to: 'same', read: onBudgetRows, leave: leaveBudgets },
  weightAllocator: { kind: 'allocator', from: ['weights'], to: 'same', read: onBudgetRows, leave: leaveBudgets },
  selector: { kind: 'selector', from: LATER, to: 'kept', ...selecting },
  weightSelector: { kind: 'selector', from: ['weights'], to: 'kept', ...selecting },
  unitSelector: { kind: 'selector', from: ['units'], to: 'kept', ...selecting },
} as const satisfies Record<string, KindDefinition<any, any>>;

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
const author =
  (sort: KindDefinition<any, any>): Author<any, any, any, any> =>
  (name, declared, run) =>
    factory(
      name,
      declared,
      sort,
      (o, label) => stepOf(name, sort, declared, run as never, o, label) as never,
      (o) => ofOptions(declared.needs ?? [], o),
    );

/** Declares a scorer: signals to scores `[H | G | 1, n]`, higher = keep. */
export const scorer: Author<'start', 'scores', {}, Scores> = author(SORTS.scorer);
/** Declares a scorer whose scores are weights: at least 0, checked at every event. */
export const weightScorer: Author<'start', 'weights', {}, Scores> = author(SORTS.weightScorer);
/** Declares a transform of scores whose results may be negative. */
export const transform: Author<ScorePhase, 'scores', WithScores, Scores> = author(SORTS.transform);
/** Declares a transform that maps weights to weights, and scores to scores. */
export const scoreTransform: Author<ScorePhase, 'same', WithScores, Scores> = author(SORTS.scoreTransform);
/** Declares a transform of any scores into weights, checked at every event. */
export const normaliser: Author<ScorePhase, 'weights', WithScores, Scores> = author(SORTS.normaliser);
/** Declares a transform of weights into weights (CAOTE), checked at every event. */
export const weightTransform: Author<'weights', 'weights', WithScores, Scores> = author(SORTS.weightTransform);
/** Declares a unit: a partition of slots and a score for each block. */
export const unit: Author<ScorePhase, 'units', WithScores, UnitCut> = author(SORTS.unit);
/** Declares a transform of unit scores. */
export const unitTransform: Author<'units', 'units', WithUnits, UnitScores> = author(SORTS.unitTransform);
/**
 * Declares an allocator that reads scores: maps budgets `[selectRows, 1]` to budgets, or forces or bans slots within
 * them.
 */
export const scoreAllocator: Author<ScorePhase | 'units', 'same', WithRows, AllocatorOutput> = author(
  SORTS.scoreAllocator,
);
/** Declares an allocator that needs weights: it reads how much weight its slots hold. */
export const weightAllocator: Author<'weights', 'same', WithRows, AllocatorOutput> = author(SORTS.weightAllocator);
/** Declares a selector: scores, budgets and masks to kept slots u32 `[rows, n]`, ascending and ragged. */
export const selector: Author<ScorePhase | 'units', 'kept', Selecting, Tensor> = author(SORTS.selector);
/** Declares a selector that needs weights. */
export const weightSelector: Author<'weights', 'kept', Selecting, Tensor> = author(SORTS.weightSelector);
/** Declares a selector that needs units. */
export const unitSelector: Author<'units', 'kept', Selecting, Tensor> = author(SORTS.unitSelector);

const PLANNED: readonly Phase[] = ['start', ...LATER];
/**
 * Declares an allocator that needs no scores: maps budgets of all layers and heads to budgets, whole numbers on the
 * host.
 */
export const allocator = <const N extends string, O extends Options = {}>(
  name: N,
  declared: DeclarationFields<O> & Pick<PieceDeclaration<O, readonly AnySignal[], unknown, unknown>, 'approximate'>,
  plan: (plan: BudgetPlan, options: ResolvedOptions<O>) => BudgetPlan,
): Factory<O, Piece<'start' | ScorePhase | 'units', 'same', N>> =>
  factory(name, declared, { kind: 'allocator', from: PLANNED, to: 'same' }, (o, label) => {
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
  });
