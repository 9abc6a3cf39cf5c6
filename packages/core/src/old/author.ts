import { KvError } from '../errors.ts';
import type { At, Cell, Draft, Kind, Plan, Reach, Step, Units } from '../atoms.ts';
import type { Ops } from '../maths.ts';
import { PHASES } from '../piece.ts';
import type {
  Allocator,
  Normaliser,
  Phase,
  Piece,
  ScoreAllocator,
  Scored,
  Scorer,
  Selector,
  Shaper,
  Transform,
  Unit,
  UnitTransform,
  Weigher,
  WeightTransform,
} from '../piece.ts';
import { isState } from '../state.ts';
import type { AnySignal, Values } from '../signals.ts';
import type { Tensor } from '../tensor.ts';

export type Options = Readonly<Record<string, number | string | boolean | undefined>>;
/** A name with the options that made the piece and what it promises. */
export interface Spec<N extends string> {
  readonly name: N;
  /** Shown in the label, `name(key=value)`. */
  readonly options?: Options;
  /** @defaultValue 'layer' */
  readonly reach?: 'head' | 'layer';
  /** Cannot run block-wise. @defaultValue false */
  readonly whole?: boolean;
  /** Slots forced in every head, as a number or from the slots present and the budget asked for. @defaultValue 0 */
  readonly floor?: number | ((slots: number, budget: number) => number);
  /** A transform that leaves every top-k as it is; tested by the law of that name. @defaultValue false */
  readonly monotone?: boolean;
  /**
   * An allocator that finds the size itself, whatever was asked for: the event runs where every head would fit, too.
   * @defaultValue false
   */
  readonly sizes?: boolean;
}
export type Head<N extends string> = N | Spec<N>;

export interface Common {
  readonly ops: Ops;
  readonly at: At /** Rows inside a view that want scores, f32 `[rows, 1]`; absent: all. The others may be left out. */;
  readonly active?: Tensor | undefined;
}
type Extras = {
  readonly forced?: Tensor | undefined;
  readonly banned?: Tensor | undefined;
  readonly state?: Readonly<Record<string, Tensor>> | undefined;
};
export type ScoreResult = Tensor | ({ readonly scores: Tensor } & Extras);
type WithScores = { readonly scores: Tensor };

export const parts = <N extends string>(head: Head<N>): Spec<N> => (typeof head === 'string' ? { name: head } : head);
export function label(name: string, options: Options = {}): string {
  const shown = Object.entries(options).filter(([, v]) => v !== undefined);
  return shown.length === 0 ? name : `${name}(${shown.map(([k, v]) => `${k}=${v}`).join(',')})`;
}

/** What an author's function gets: operations, place, and each needed signal under its name. */
export function context<S extends readonly AnySignal[]>(cell: Cell, needs: S): Common & Values<S> {
  const ctx: Record<string, unknown> = {
    ops: cell.ops,
    at: cell.at,
    ...(cell.draft.active && { active: cell.draft.active }),
  };
  for (const signal of needs) ctx[signal.as] = cell.read(signal);
  return ctx as Common & Values<S>;
}

const isTensor = (x: object): x is Tensor => 'shape' in x && 'dtype' in x;
/** Union of two masks, either of which may be missing. */
export const either = (ops: Ops, a: Tensor | undefined, b: Tensor | undefined): Tensor | undefined =>
  a && b ? ops.max(a, b) : (a ?? b);

/** New state by signal id, from an author's `{ state: { name: tensor } }`. */
export function written(
  piece: string,
  needs: readonly AnySignal[],
  state: Readonly<Record<string, Tensor>> = {},
): Map<string, Tensor> {
  const out = new Map<string, Tensor>();
  for (const [name, tensor] of Object.entries(state)) {
    const signal = needs.find((s) => isState(s) && s.as === name);
    if (!signal)
      throw new KvError(
        piece,
        `writes the state '${name}', expected one of the states it declares (${
          needs
            .filter(isState)
            .map((s) => s.as)
            .join(', ') || 'none'
        })`,
      );
    out.set(signal.id, tensor);
  }
  return out;
}

function withScores(
  cell: Cell,
  piece: string,
  needs: readonly AnySignal[],
  result: ScoreResult,
  lowest?: number,
): Draft {
  const { ops, draft, at } = cell;
  const full: { readonly scores: Tensor } & Extras = isTensor(result) ? { scores: result } : result;
  const { forced, banned, state } = full;
  const want = lowest === undefined ? 'finite' : 'finite and at least 0';
  return prune({
    ...draft,
    scores: full.scores,
    forced: either(ops, draft.forced, forced),
    banned: either(ops, draft.banned, banned),
    state: new Map([...draft.state, ...written(piece, needs, state)]),
    checks: [...draft.checks, { bad: ops.firstBad(full.scores, lowest), piece, layer: at.layer, want }],
  });
}
const prune = (draft: { [K in keyof Draft]: Draft[K] | undefined }): Draft =>
  Object.fromEntries(Object.entries(draft).filter(([, v]) => v !== undefined)) as unknown as Draft;

const scoresOf = (cell: Cell, piece: string): Tensor => {
  if (!cell.draft.scores) throw new KvError(piece, 'needs scores, got a draft without any');
  return cell.draft.scores;
};

interface StepParts {
  kind: Kind;
  needs: readonly AnySignal[];
  reach?: Reach;
  run: Step['run'];
  plan?: Step['plan'];
}
export function step<F extends Phase, T extends Phase | 'same', N extends string>(
  head: Head<N>,
  from: readonly F[],
  to: T,
  { kind, needs, reach, run, plan }: StepParts,
): Piece<F, T, N> {
  const { name, options, whole = false, floor = 0, reach: own = 'layer', monotone, sizes } = parts(head);
  const text = label(name, options);
  const atom: Step = {
    at: 'event',
    kind,
    name,
    label: text,
    needs,
    reach: reach ?? own,
    whole,
    run,
    floor: typeof floor === 'number' ? () => floor : floor,
    ...(plan && { plan }),
    ...(monotone && { monotone }),
    ...(sizes && { sizes }),
  };
  return { protocol: 1, from, to, name, label: text, atoms: [atom] };
}

const SCORED: readonly Scored[] = ['scores', 'weights'];
export const SCORED_OR_UNITS: readonly (Scored | 'units')[] = [...SCORED, 'units'];
type Fn<S extends readonly AnySignal[], Given, R> = (ctx: Common & Values<S> & Given) => R;

const scoring =
  <F extends Phase, T extends Phase | 'same', const N extends string, const S extends readonly AnySignal[]>(
    kind: Kind,
    from: readonly F[],
    to: T,
    lowest?: number,
  ) =>
  (head: Head<N>, needs: S, run: Fn<S, any, ScoreResult>): Piece<F, T, N> =>
    step(head, from, to, {
      kind,
      needs,
      run: (cells) =>
        cells.map((cell) =>
          withScores(
            cell,
            parts(head).name,
            needs,
            run({ ...context(cell, needs), ...(kind === 'transform' && budgetsOf(cell, parts(head).name)) }),
            lowest,
          ),
        ),
    });

/** A scorer: signals to scores `[H | G | 1, n]`, higher = keep. */
export function scorer<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, unknown, ScoreResult>,
): Scorer<N> {
  return scoring<'start', 'scores', N, S>('scorer', ['start'], 'scores')(head, needs, run);
}
/** A scorer whose scores are weights: at least 0, checked at every event. */
export function weigher<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, unknown, ScoreResult>,
): Weigher<N> {
  return scoring<'start', 'weights', N, S>('scorer', ['start'], 'weights', 0)(head, needs, run);
}
/** A transform of scores that may leave negative ones. */
export function transform<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithBudgets, ScoreResult>,
): Transform<N> {
  return scoring<Scored, 'scores', N, S>('transform', SCORED, 'scores')(head, needs, run);
}
/** A transform that keeps weights weights. */
export function shaper<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithBudgets, ScoreResult>,
): Shaper<N> {
  return scoring<Scored, 'same', N, S>('transform', SCORED, 'same')(head, needs, run);
}
/** A transform of any scores into weights, checked at every event. */
export function normaliser<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithBudgets, ScoreResult>,
): Normaliser<N> {
  return scoring<Scored, 'weights', N, S>('transform', SCORED, 'weights', 0)(head, needs, run);
}
/** A transform of weights into weights (CAOTE), checked at every event. */
export function weightTransform<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithBudgets, ScoreResult>,
): WeightTransform<N> {
  return scoring<'weights', 'weights', N, S>('transform', ['weights'], 'weights', 0)(head, needs, run);
}

/** Layers side by side: for what only the whole model can tell. One result a layer. */
export function modelScorer<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (layers: readonly (Common & Values<S>)[]) => readonly ScoreResult[],
): Scorer<N> {
  const { name } = parts(head);
  return step(head, ['start'], 'scores', {
    kind: 'scorer',
    needs,
    reach: 'model',
    run: (cells) => {
      const results = run(cells.map((c) => context(c, needs)));
      return cells.map((c, i) => withScores(c, name, needs, results[i]));
    },
  });
}
/** A transform that sees the scores of every layer. */
export function modelTransform<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (layers: readonly (Common & Values<S> & WithScores)[]) => readonly ScoreResult[],
): Transform<N> {
  const { name } = parts(head);
  return step(head, SCORED, 'scores', {
    kind: 'transform',
    needs,
    reach: 'model',
    run: (cells) => {
      const results = run(cells.map((c) => ({ ...context(c, needs), scores: scoresOf(c, name) })));
      return cells.map((c, i) => withScores(c, name, needs, results[i]));
    },
  });
}

/** A unit: a partition of slots and a score for each block. */
export function unit<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithScores, { readonly units: Units; readonly scores: Tensor }>,
): Unit<N> {
  const { name } = parts(head);
  return step(head, SCORED, 'units', {
    kind: 'unit',
    needs,
    run: (cells) =>
      cells.map((cell) => {
        const { units, scores } = run({ ...context(cell, needs), scores: scoresOf(cell, name) });
        return { ...cell.draft, units, unitScores: scores };
      }),
  });
}
type WithUnits = WithScores & {
  readonly units: Units;
  readonly unitScores: Tensor;
  readonly forced: Tensor | undefined;
};
const unitsOf = (cell: Cell, piece: string): WithUnits => ({
  scores: scoresOf(cell, piece),
  units: cell.draft.units!,
  unitScores: cell.draft.unitScores!,
  forced: cell.draft.forced,
});
/** Unit scores to unit scores. */
export function unitTransform<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithUnits, Tensor>,
): UnitTransform<N> {
  const { name } = parts(head);
  return step(head, ['units'], 'units', {
    kind: 'unit',
    needs,
    run: (cells) =>
      cells.map((cell) => ({
        ...cell.draft,
        unitScores: run({ ...context(cell, needs), ...unitsOf(cell, name) }),
      })),
  });
}

/** What became of one layer's units. */
export interface UnitResult {
  readonly unitScores: Tensor;
  readonly state?: Readonly<Record<string, Tensor>> | undefined /** Nothing stays forced. @defaultValue false */;
  readonly release?: boolean;
}
/** Unit scores of every layer to unit scores, with state; may let go of what was forced. One result a layer. */
export function modelUnitTransform<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (layers: readonly (Common & Values<S> & WithUnits)[]) => readonly UnitResult[],
): UnitTransform<N> {
  const { name } = parts(head);
  return step(head, ['units'], 'units', {
    kind: 'unit',
    needs,
    reach: 'model',
    run: (cells) => {
      const made = run(cells.map((cell) => ({ ...context(cell, needs), ...unitsOf(cell, name) })));
      return cells.map(({ draft }, i) => {
        const { unitScores, state, release = false } = made[i];
        return prune({
          ...draft,
          unitScores,
          forced: release ? undefined : draft.forced,
          state: new Map([...draft.state, ...written(name, needs, state)]),
        });
      });
    },
  });
}

/** An allocator that needs no scores: budgets of all layers and heads to budgets, whole numbers on the host. */
export function allocator<const N extends string>(head: Head<N>, plan: (plan: Plan) => Plan): Allocator<N> {
  return step(head, PHASES.filter((p) => p !== 'kept') as Exclude<Phase, 'kept'>[], 'same', {
    kind: 'allocator',
    needs: [],
    plan,
    run: (cells) => cells.map((c) => c.draft),
  });
}
export type WithBudgets = WithScores & {
  readonly budgets: Tensor;
  readonly forced: Tensor | undefined;
  readonly banned: Tensor | undefined;
};
export type Allocation = {
  readonly budgets?: Tensor;
  readonly forced?: Tensor;
  readonly banned?: Tensor;
  readonly state?: Readonly<Record<string, Tensor>>;
};
/**
 * An allocator that reads scores: budgets `[G, 1]` of one layer to budgets, on the device; or slots forced inside them
 * (a pool).
 */
export function scoreAllocator<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, WithBudgets, Allocation>,
): ScoreAllocator<N> {
  const { name } = parts(head);
  return step(head, SCORED_OR_UNITS, 'same', {
    kind: 'allocator',
    needs,
    run: (cells) =>
      cells.map((cell) => allocated(cell, name, needs, run({ ...context(cell, needs), ...budgetsOf(cell, name) }))),
  });
}
/** An allocator that reads the scores of every layer and may move slots between layers. One allocation a layer. */
export function modelAllocator<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (layers: readonly (Common & Values<S> & WithBudgets)[]) => readonly Allocation[],
): ScoreAllocator<N> {
  const { name } = parts(head);
  return step(head, SCORED_OR_UNITS, 'same', {
    kind: 'allocator',
    needs,
    reach: 'model',
    run: (cells) => {
      const made = run(cells.map((cell) => ({ ...context(cell, needs), ...budgetsOf(cell, name) })));
      return cells.map((cell, i) => allocated(cell, name, needs, made[i]));
    },
  });
}
export const budgetsOf = (cell: Cell, piece: string): WithBudgets => {
  const { budgets, forced, banned } = cell.draft;
  return { scores: scoresOf(cell, piece), budgets, forced, banned };
};
export function allocated(
  { ops, draft }: Cell,
  piece: string,
  needs: readonly AnySignal[],
  { budgets, forced, banned, state }: Allocation,
): Draft {
  return prune({
    ...draft,
    budgets: budgets ?? draft.budgets,
    forced: either(ops, draft.forced, forced),
    banned: either(ops, draft.banned, banned),
    state: new Map([...draft.state, ...written(piece, needs, state)]),
  });
}

export interface Selection extends WithBudgets {
  /** The scores before their rows were reduced. */ readonly given: Tensor;
  readonly units: Units | undefined;
  readonly unitScores: Tensor | undefined;
  readonly active: Tensor | undefined;
}
/** What a selector is given of one layer: scores and masks on the rows that it selects for. */
function selection(cell: Cell, piece: string): Selection {
  const { ops, at, draft } = cell;
  const onRows = (kind: 'mean' | 'max', x: Tensor | undefined): Tensor | undefined =>
    x && x.shape[0] > at.selectRows ? ops.groupRows(kind, x, at.selectRows) : x;
  const { scores, budgets, forced, banned } = budgetsOf(cell, piece);
  return {
    scores: onRows('mean', scores)!,
    given: scores,
    budgets,
    active: draft.active,
    forced: onRows('max', forced),
    banned: onRows('max', banned),
    units: draft.units,
    unitScores: draft.unitScores,
  };
}
/**
 * A selector: scores, budgets and masks on KV rows (query rows inside a view) to kept slots u32 `[rows, n]`, ascending
 * and ragged.
 */
export function selector<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: Fn<S, Selection, Tensor>,
): Selector<N> {
  const { name } = parts(head);
  return step(head, SCORED_OR_UNITS, 'kept', {
    kind: 'selector',
    needs,
    run: (cells) =>
      cells.map((cell) => ({ ...cell.draft, kept: run({ ...context(cell, needs), ...selection(cell, name) }) })),
  });
}
/** A selector that sees every layer. One set of kept slots a layer. */
export function modelSelector<const N extends string, const S extends readonly AnySignal[]>(
  head: Head<N>,
  needs: S,
  run: (layers: readonly (Common & Values<S> & Selection)[]) => readonly Tensor[],
): Selector<N> {
  const { name } = parts(head);
  return step(head, SCORED_OR_UNITS, 'kept', {
    kind: 'selector',
    needs,
    reach: 'model',
    run: (cells) => {
      const kept = run(cells.map((cell) => ({ ...context(cell, needs), ...selection(cell, name) })));
      return cells.map((cell, i) => ({ ...cell.draft, kept: kept[i] }));
    },
  });
}
