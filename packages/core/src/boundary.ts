import type { At, Cell, Draft, Plan, Step } from './atoms.ts';
import { KvError } from './errors.ts';
import { forcersOf } from './forced.ts';
import { shown } from './option.ts';
import { isState } from './state.ts';
import type { DType, Tensor } from './tensor.ts';

// What stands between an engine and the pieces of others: whatever a piece returns is a draft that the next step can
// read, or one error that names the piece and the layer. Everything here is known on the host, in O(1) a step.

const where = (name: string, layer: number): string => `${name}, layer ${layer}`;

/** What came in the place of something else, as an error shows it. */
export const promised = (x: unknown): string =>
  typeof (x as { then?: unknown } | null | undefined)?.then === 'function'
    ? 'a promise: pieces are synchronous'
    : shown(x);

/** Runs what a piece brought. Whatever it throws becomes one error in its name. */
export function guarded<T>(name: string, layer: number, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const at = KvError.is(cause) ? (cause as KvError).at : '';
    if (KvError.is(cause) && !/^(?:ops\b|cpu$|gpu$|event$)/.test(at)) throw cause;
    const said = cause instanceof Error ? cause.message : `threw ${shown(cause)}, expected an Error`;
    throw new KvError(where(name, layer), said);
  }
}

interface Shape {
  /** How many rows there may be. */
  readonly rows: readonly number[];
  readonly columns?: number;
  readonly dtype: DType;
}
/** @throws KvError for anything but a tensor of that shape. */
export function expectTensor(
  name: string,
  layer: number,
  what: string,
  x: unknown,
  { rows, columns, dtype }: Shape,
): void {
  const want = `${what} as ${dtype} [${[...new Set(rows)].join(' | ')}, ${columns ?? 'n'}]`;
  const refuse = (got: string): KvError => new KvError(where(name, layer), `expected ${want}, got ${got}`);
  if (typeof x !== 'object' || x === null || !('shape' in x) || !('dtype' in x) || !Array.isArray(x.shape))
    throw refuse(promised(x));
  const { shape, dtype: type } = x as Tensor;
  if (
    shape.length !== 2 ||
    !rows.includes(shape[0]) ||
    (columns !== undefined && shape[1] !== columns) ||
    type !== dtype
  )
    throw refuse(`${type} [${shape.join(', ')}]`);
}

/** Rows that scores and masks of a layer may have. */
const rowsOf = ({ queryHeads, kvHeads, selectRows }: At): readonly number[] => [1, kvHeads, queryHeads, selectRows];
const own = <K extends keyof Draft>(before: Draft, after: Draft, key: K): Draft[K] | undefined =>
  after[key] === before[key] ? undefined : after[key];

/** What a step made of a draft, with the promise about its scores as a check. @throws KvError naming piece and layer. */
function checked(
  { name, weights, needs, kind, sizes, approximate, forcers = [{ name, options: {} }] }: Step,
  { at, ops, draft }: Cell,
  made: unknown,
): Draft {
  const { layer, slots } = at;
  if (typeof made !== 'object' || made === null || !('budgets' in made) || !('state' in made))
    throw new KvError(where(name, layer), `expected a draft, got ${promised(made)}`);
  const after = made as Draft;
  const rows = rowsOf(at);
  for (const [key, what] of [
    ['scores', 'scores'],
    ['forced', 'a mask'],
    ['banned', 'a mask'],
  ] as const)
    if (own(draft, after, key)) expectTensor(name, layer, what, after[key], { rows, columns: slots, dtype: 'f32' });
  if (own(draft, after, 'budgets'))
    expectTensor(name, layer, 'budgets', after.budgets, {
      rows: [1, draft.budgets.shape[0]],
      columns: 1,
      dtype: 'f32',
    });
  if (own(draft, after, 'units') && after.units) {
    const { of, count } = after.units;
    expectTensor(name, layer, 'units', of, { rows, columns: slots, dtype: 'u32' });
    if (!Number.isSafeInteger(count) || count < 0)
      throw new KvError(where(name, layer), `expected a whole number of units, got ${shown(count)}`);
  }
  if (own(draft, after, 'unitScores'))
    expectTensor(name, layer, 'unit scores', after.unitScores, {
      rows,
      columns: after.units?.count ?? 0,
      dtype: 'f32',
    });
  if (own(draft, after, 'kept')) expectTensor(name, layer, 'kept slots', after.kept, { rows, dtype: 'u32' });
  if ((kind === 'scorer' || kind === 'transform') && !after.scores)
    throw new KvError(where(name, layer), `expected scores, got ${promised(after.scores)}`);
  if (kind === 'selector' && !after.kept)
    throw new KvError(where(name, layer), `expected kept slots, got ${shown(after.kept)}`);
  for (const [id, tensor] of after.state)
    if (
      draft.state.get(id) !== tensor &&
      !(
        needs.some((s) => isState(s) && s.id === id) &&
        typeof tensor === 'object' &&
        tensor !== null &&
        'dtype' in tensor
      )
    )
      throw new KvError(
        where(name, layer),
        `expected a tensor for a state that it declares, got ${shown(tensor)} for '${id}'`,
      );
  const { scores } = after;
  const want = weights ? 'finite and at least 0' : 'finite';
  const checks =
    scores && scores !== draft.scores
      ? [
          ...after.checks,
          { bad: guarded(name, layer, () => ops.firstBad(scores, weights ? 0 : undefined)), piece: name, layer, want },
        ]
      : after.checks;
  return {
    ...after,
    checks,
    ...(after.forced && after.forced !== draft.forced && { forcedBy: forcersOf(after, { forcedBy: forcers }) ?? [] }),
    ...(after.budgets !== draft.budgets && { allottedBy: { name, bounded: !sizes && !approximate } }),
    ...(after.kept !== draft.kept && { selectedBy: name }),
  };
}

/** Runs a step over the cells of its layers, and checks what came of it. */
export function runStep(step: Step, cells: readonly Cell[]): readonly Draft[] {
  const layer = cells[0]?.at.layer ?? 0;
  const made: unknown = guarded(step.name, layer, () => step.run(cells));
  if (!Array.isArray(made) || made.length !== cells.length)
    throw new KvError(
      where(step.name, layer),
      `expected a draft for each of ${cells.length} layers, got ${Array.isArray(made) ? made.length : shown(made)}`,
    );
  return cells.map((cell, i) => checked(step, cell, made[i]));
}

/** What an allocator made of budgets on the host. @throws KvError naming it, for anything but budgets within the total. */
export function checkedPlan({ name, sizes, approximate }: Step, before: Plan, made: unknown): Plan {
  const refuse = (sentence: string): KvError => new KvError(name, sentence);
  if (typeof made !== 'object' || made === null || !('budgets' in made))
    throw refuse(`expected budgets, got ${shown(made)}`);
  const { budgets, notes = before.notes } = made as Plan;
  const fits =
    Array.isArray(budgets) &&
    budgets.length === before.lengths.length &&
    budgets.every((heads, l) => Array.isArray(heads) && heads.length === before.lengths[l].length);
  if (!fits)
    throw refuse(
      `expected budgets of ${before.lengths.length} layers with ${before.lengths[0]?.length ?? 0} heads, got another shape`,
    );
  const bad = budgets.flat().find((b) => !Number.isSafeInteger(b) || b < 0);
  if (bad !== undefined) throw refuse(`expected whole numbers of slots, got ${shown(bad)}`);
  const total = (all: Plan['budgets']): number => all.flat().reduce((a, b) => a + b, 0);
  if (!sizes && !approximate && total(budgets) > total(before.budgets))
    throw refuse(`expected at most the ${total(before.budgets)} slots that were asked for, got ${total(budgets)}`);
  return { ...before, budgets, notes };
}

/** Budgets of a layer's rows as they were read. @throws KvError naming who allotted them. */
export function checkedBudgets(draft: Draft, layer: number, budgets: readonly number[]): void {
  const bad = budgets.find((b) => !Number.isInteger(b) || b < 0);
  if (bad !== undefined)
    throw new KvError(
      where(draft.allottedBy?.name ?? 'budget', layer),
      `expected whole numbers of slots as budgets, got ${shown(bad)}`,
    );
}

/** Kept slots of one row as they were read. @throws KvError naming who selected them. */
export function checkedSlots(draft: Draft, { layer, slots }: At, kept: ArrayLike<number>): void {
  for (let i = 0; i < kept.length; i++)
    if (kept[i] >= slots || (i > 0 && kept[i] <= kept[i - 1]))
      throw new KvError(
        where(draft.selectedBy ?? 'event', layer),
        `expected ascending slots below ${slots}, got ${kept[i]}${i > 0 ? ` after ${kept[i - 1]}` : ''}`,
      );
}
