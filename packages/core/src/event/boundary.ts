import { layerOf } from './step-cache.ts';
import { outOfMemory } from '../tensor/out-of-memory.ts';
import type { LayerContext, StepInput, Check, DraftSelection, BudgetPlan, Step } from '../piece/atoms.ts';
import { KvError } from '../tensor/errors.ts';
import { forcersOf } from './forced.ts';
import type { Ops } from '../tensor/maths.ts';
import { LEVELS } from '../piece/levels.ts';
import { showValue } from '../piece/option.ts';
import { readOnly } from './read-only.ts';
import type { AnySignal } from '../piece/signals.ts';
import { isState, stateColumns } from '../piece/state.ts';
import type { State } from '../piece/state.ts';
import type { DType, Tensor } from '../tensor/tensor.ts';
import { sumOf } from '../tensor/sum-of.ts';

// The boundary between an engine and third-party pieces: a piece's result is either a draft that the next step can read,
// or an error that names the piece and the layer. All checks are on host data, O(1) per step.

export const where = (name: string, layer?: number): string => (layer === undefined ? name : `${name}, layer ${layer}`);

/** Formats a value, or a promise of one, for an error. */
export const shownValue = (x: unknown): string =>
  typeof (x as { then?: unknown } | null | undefined)?.then === 'function'
    ? 'a promise: pieces are synchronous'
    : showValue(x);

/**
 * Runs a function of a piece. Anything it throws becomes one error that names the piece.
 * @throws KvError that names the piece, for whatever `run` throws
 */
export function runGuarded<T>(name: string, layer: number | undefined, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    throw inNameOf(name, layer, cause);
  }
}
/** Returns the error of a piece: a KvError unchanged, anything else with the piece's name and layer. */
export function inNameOf(name: string, layer: number | undefined, error: unknown): KvError {
  const cause = outOfMemory(error);
  if (KvError.is(cause) && !/^(?:ops\b|cpu$|gpu$|event$|trace$)/.test(cause.at)) return cause;
  const said = cause instanceof Error ? cause.message : `threw ${showValue(cause)}, expected an Error`;
  return new KvError(where(name, layer), said);
}

/** The piece and layer that a value comes from, and the backend that it must belong to. */
export interface ValueOrigin {
  readonly name: string;
  readonly layer: number;
  readonly ops: Ops;
}
interface Shape {
  /** Allowed numbers of rows. */
  readonly rows: readonly number[];
  /** Required number of columns; absent: any. */
  readonly columns?: number;
  /** Required number of channels; the tensor then has rank 3. */
  readonly channels?: number;
  readonly dtype: DType;
}
const isTensor = (x: unknown): x is Tensor =>
  typeof x === 'object' && x !== null && 'shape' in x && 'dtype' in x && Array.isArray(x.shape);
const said = ({ dtype, shape }: Tensor): string => `${String(dtype)} [${shape.map(String).join(', ')}]`;
/** Whether lengths belong to the rows of a tensor, or to groups of them. */
const fits = (lengths: Tensor, [rows]: readonly number[]): boolean =>
  lengths.shape.length === 1 && (rows === lengths.shape[0] || rows % lengths.shape[0] === 0);
/** @throws KvError unless `x` is a tensor of that shape that belongs to this backend and has not been released. */
export function expectTensor({ name, layer, ops }: ValueOrigin, what: string, x: unknown, want: Shape): void {
  const { rows, columns, channels, dtype } = want,
    refuse = (got: string): KvError => {
      const sizes = [[...new Set(rows)].join(' | '), columns ?? 'n', channels ?? []].flat().join(', ');
      return new KvError(where(name, layer), `expected ${what} as ${dtype} [${sizes}], got ${got}`);
    };
  if (!isTensor(x)) throw refuse(`${shownValue(x)}${typeof x === 'object' ? ' (ops.from makes tensors)' : ''}`);
  const { shape, dtype: type, lengths } = x;
  if (
    shape.length !== (channels === undefined ? 2 : 3) ||
    !rows.includes(shape[0]) ||
    (columns !== undefined && shape[1] !== columns) ||
    (channels !== undefined && shape[2] !== channels) ||
    type !== dtype
  )
    throw refuse(said(x));
  if (lengths !== undefined && !(isTensor(lengths) && lengths.dtype === 'u32' && fits(lengths, shape)))
    throw refuse(`one with lengths ${isTensor(lengths) ? said(lengths) : showValue(lengths)}`);
  runGuarded(name, layer, () => ops.own(x));
}
/**
 * Checks a value that a piece returned.
 * @param what what was expected, for the error
 * @throws KvError unless `x` is an object; a promise is refused
 */
export function expectObject(
  { name, layer }: Pick<ValueOrigin, 'name'> & { readonly layer?: number },
  what: string,
  x: unknown,
): asserts x is object {
  if (typeof x !== 'object' || x === null || 'then' in x)
    throw new KvError(where(name, layer), `expected ${what}, got ${shownValue(x)}`);
}

/** Rows and columns that a state may be written with. */
function stateSizes({ state }: State, at: LayerContext): Shape {
  const { kind, rows, dtype = 'f32' } = state;
  const count = { query: at.queryHeads, kv: at.kvHeads, layer: 1, model: 1 }[rows],
    columns = { slot: at.slots, sequence: stateColumns(state, at.headDim), position: undefined, unit: undefined }[kind];
  return { rows: [count], dtype, ...(columns !== undefined && { columns }) };
}
/** @throws KvError for new state that is not declared, or has another shape. */
export function expectState(
  from: ValueOrigin,
  at: LayerContext,
  needs: readonly AnySignal[],
  state: unknown,
  before: DraftSelection['state'] = new Map(),
): void {
  expectObject(from, 'new state by signal id, in a Map', state);
  if (!(state instanceof Map))
    throw new KvError(
      where(from.name, from.layer),
      `expected new state by signal id, in a Map, got ${showValue(state)}`,
    );
  for (const [id, tensor] of state as ReadonlyMap<unknown, unknown>) {
    if (tensor !== undefined && before.get(id as string) === tensor) continue;
    const signal = needs.find((s): s is State => isState(s) && s.id === id);
    if (!signal)
      throw new KvError(where(from.name, from.layer), `expected states that it declares, got one for ${showValue(id)}`);
    expectTensor(from, `the state '${signal.as}'`, tensor, stateSizes(signal, at));
  }
}

/** Row counts that scores and masks of a layer may have. */
export const rowsOf = ({ queryHeads, kvHeads, selectRows }: LayerContext): readonly number[] => [
  ...new Set([1, kvHeads, queryHeads, selectRows]),
];
/** Row counts that kept slots may have. */
export const keptRows = ({ selectRows }: LayerContext): readonly number[] => [...new Set([1, selectRows])];
/** Whether a step replaced this field of the draft. */
const own = (before: DraftSelection, after: DraftSelection, key: keyof DraftSelection): boolean =>
  after[key] !== undefined && after[key] !== before[key];

/** Returns a step's draft, with the promises about its numbers as checks. @throws KvError naming piece and layer. */
function checked(
  step: Step,
  { at, ops, draft }: StepInput,
  before: DraftSelection['state'],
  made: unknown,
): DraftSelection {
  const { name, weights, needs, kind, choosesBudget, approximate, forcers = [name] } = step,
    { slots } = at,
    layer = layerOf(at),
    from = { name, layer, ops },
    refuse = (want: string, got: unknown): KvError =>
      new KvError(where(name, layer), `expected ${want}, got ${shownValue(got)}`);
  if (typeof made !== 'object' || made === null || !('budgets' in made) || !('state' in made))
    throw refuse('a draft', made);
  const after = made as DraftSelection,
    rows = rowsOf(at),
    { units, scores, unitScores } = after;
  for (const [key, what] of [
    ['scores', 'scores'],
    ['forced', 'a mask'],
    ['banned', 'a mask'],
  ] as const)
    if (own(draft, after, key)) expectTensor(from, what, after[key], { rows, columns: slots, dtype: 'f32' });
  if (step.forces && after.budgets !== draft.budgets) throw refuse('budgets left as they are', after.budgets);
  if (own(draft, after, 'budgets'))
    expectTensor(from, 'budgets', after.budgets, { rows: [1, draft.budgets.shape[0]], columns: 1, dtype: 'f32' });
  if (own(draft, after, 'units')) {
    expectObject(from, 'units', units);
    expectTensor(from, 'units', units.of, { rows, columns: slots, dtype: 'u32' });
    if (!Number.isSafeInteger(units.count) || units.count < 0) throw refuse('a whole number of units', units.count);
  }
  if (own(draft, after, 'unitScores'))
    expectTensor(from, 'unit scores', unitScores, { rows, columns: units?.count ?? 0, dtype: 'f32' });
  if (own(draft, after, 'kept')) expectTensor(from, 'kept slots', after.kept, { rows: keptRows(at), dtype: 'u32' });
  if (own(draft, after, 'levels'))
    expectTensor(from, 'levels', after.levels, { rows: keptRows(at), columns: slots, dtype: 'f32' });
  if ((kind === 'scorer' || kind === 'transform') && !scores) throw refuse('scores', scores);
  if (kind === 'unit' && !unitScores) throw refuse('unit scores', unitScores);
  if (kind === 'selector' && !after.kept) throw refuse('kept slots', after.kept);
  if (kind === 'demotion' && !after.levels) throw refuse('levels', after.levels);
  expectState(from, at, needs, after.state, before);
  if (!Array.isArray(after.checks) || draft.checks.some((check, i) => after.checks[i] !== check))
    throw refuse('the checks of the pieces before it, followed by others', after.checks);
  const promise = (x: Tensor, atLeast: number | undefined, rest: Pick<Check, 'want' | 'what'>): Check => ({
    ...rest,
    bad: runGuarded(name, layer, () => ops.firstBad(x, atLeast)),
    columns: x.shape[1],
    piece: name,
    layer,
  });
  const checks: Check[] = [];
  if (scores && scores !== draft.scores)
    checks.push(promise(scores, weights ? 0 : undefined, { want: weights ? 'finite and at least 0' : 'finite' }));
  if (units && units !== draft.units)
    checks.push(
      promise(
        runGuarded(name, layer, () => ops.sub(units.count - 1, units.of)),
        0,
        { what: 'units', want: `below ${units.count}` },
      ),
    );
  if (unitScores && unitScores !== draft.unitScores)
    checks.push(promise(unitScores, undefined, { what: 'unit scores', want: 'finite' }));
  return Object.freeze({
    ...after,
    checks: Object.freeze([...after.checks, ...checks]),
    ...(after.forced && after.forced !== draft.forced && { forcedBy: forcersOf(after, { forcedBy: forcers }) ?? [] }),
    ...(after.budgets !== draft.budgets && {
      // nothing bounds the sum of those that share out what an earlier one chose
      allottedBy: { name, bounded: !choosesBudget && !approximate && draft.allottedBy?.bounded !== false },
    }),
    ...(after.kept !== draft.kept && { selectedBy: name }),
    ...(after.levels !== draft.levels && { levelledBy: name }),
  });
}

/** Runs a step over the cells of its layers, and checks its result. */
export function runStep(step: Step, cells: readonly StepInput[]): readonly DraftSelection[] {
  if (step.reach === 'model') return runTogether(step, cells);
  return cells.flatMap((cell) =>
    runGuarded(step.name, layerOf(cell.at), () => {
      const run = (one: StepInput): readonly DraftSelection[] => runTogether(step, [one]);
      return cell.stepCache?.reuse(step, cell, run) ?? run(cell);
    }),
  );
}
function runTogether(step: Step, cells: readonly StepInput[]): readonly DraftSelection[] {
  const [first] = cells,
    layer = first ? layerOf(first.at) : 0,
    before = cells.map(({ draft }) => new Map(draft.state));
  const made: unknown = runGuarded(step.name, layer, () => readOnly(step.name, cells, step.run));
  if (!Array.isArray(made) || made.length !== cells.length)
    throw new KvError(
      where(step.name, layer),
      `expected a draft for each of ${cells.length} layers, got ${Array.isArray(made) ? made.length : shownValue(made)}`,
    );
  return cells.map((cell, i) => runGuarded(step.name, layerOf(cell.at), () => checked(step, cell, before[i], made[i])));
}

/**
 * Checks an allocator's budgets on the host. @throws KvError naming the allocator, unless they are budgets within the
 * total.
 */
export function checkedPlan({ name, choosesBudget, approximate }: Step, before: BudgetPlan, made: unknown): BudgetPlan {
  const refuse = (sentence: string): KvError => new KvError(name, sentence);
  if (typeof made !== 'object' || made === null || !('budgets' in made))
    throw refuse(`expected budgets, got ${shownValue(made)}`);
  const { budgets, notes = before.notes } = made as BudgetPlan;
  if (!Array.isArray(notes) || notes.some((note) => typeof note !== 'string'))
    throw refuse(`expected notes as an array of sentences, got ${showValue(notes)}`);
  const fits =
    Array.isArray(budgets) &&
    budgets.length === before.lengths.length &&
    budgets.every((heads, l) => Array.isArray(heads) && heads.length === before.lengths[l].length);
  if (!fits)
    throw refuse(
      `expected budgets of ${before.lengths.length} layers with ${before.lengths[0]?.length ?? 0} heads, got another shape`,
    );
  for (const b of budgets.flat())
    if (!Number.isSafeInteger(b) || b < 0) throw refuse(`expected whole numbers of slots, got ${shownValue(b)}`);
  const [asked, got] = [sumOf(before.budgets.flat()), sumOf(budgets.flat())];
  if (!choosesBudget && !approximate && got > asked)
    throw refuse(`expected at most the ${asked} slots that were asked for, got ${got}`);
  return { ...before, budgets, notes };
}

/** Checks the budgets read for a layer's rows. @throws KvError naming the piece that allotted them. */
export function checkedBudgets(draft: DraftSelection, layer: number, budgets: readonly number[]): void {
  const bad = budgets.find((b) => !Number.isInteger(b) || b < 0);
  if (bad !== undefined)
    throw new KvError(
      where(draft.allottedBy?.name ?? 'budget', layer),
      `expected whole numbers of slots as budgets, got ${showValue(bad)}`,
    );
}

/** Checks the levels read of one row's kept slots. @throws KvError naming the piece that gave them. */
export function checkedLevels(
  { levelledBy = 'event' }: DraftSelection,
  { layer }: LayerContext,
  kept: Uint32Array,
  levels: ArrayLike<number>,
): Uint8Array {
  for (const slot of kept) {
    const level = levels[slot];
    if (!Number.isInteger(level) || level < 0 || level >= LEVELS.length)
      throw new KvError(
        where(levelledBy, layer),
        `expected levels as whole numbers from 0 (${LEVELS[0]}) to ${LEVELS.length - 1} (${LEVELS.at(-1)}), got ${level} for slot ${slot}`,
      );
  }
  return Uint8Array.from(kept, (slot) => levels[slot]);
}

/** Checks the kept slots read for one row. @throws KvError naming the piece that selected them. */
export function checkedSlots(draft: DraftSelection, { layer, slots }: LayerContext, kept: ArrayLike<number>): void {
  for (let i = 0; i < kept.length; i++)
    if (!(kept[i] < slots) || (i > 0 && kept[i] <= kept[i - 1]))
      throw new KvError(
        where(draft.selectedBy ?? 'event', layer),
        `expected ascending slots below ${slots}, got ${kept[i]}${i > 0 ? ` after ${kept[i - 1]}` : ''}`,
      );
}
