import type { Check, DraftSelection, LayerContext, StepInput } from './atoms.ts';
import type {
  AllocatorOutput,
  DemotionContext,
  NewMasks,
  NewNotes,
  NewState,
  Scores,
  StepContext,
  UnitCut,
  UnitScores,
  WithRows,
  WithScores,
  WithUnits,
} from './piece-declaration.ts';
import { expectObject } from '../event/boundary.ts';
import { forcersOf } from '../event/forced.ts';
import { layerOf } from '../event/step-cache.ts';
import { KvError } from '../tensor/errors.ts';
import type { Mask } from '../tensor/maths.ts';
import type { Tensor } from '../tensor/tensor.ts';
import type { AnySignal } from './signals.ts';
import { isState } from './state.ts';

/** The piece that writes to a draft. */
export interface StepAuthor {
  readonly name: string;
  readonly label: string;
  readonly needs: readonly AnySignal[];
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

// Drafts in.

/** Scores of a draft. The error is given the piece and layer by whatever runs the step. */
const scoresOf = ({ draft: { scores } }: StepInput): Tensor => {
  if (!scores) throw new Error('expected scores of a piece before it, got none');
  return scores;
};
export const withScores = (cell: StepInput): WithScores => {
  const { budgets, forced = 0, banned = 0 } = cell.draft;
  return { scores: scoresOf(cell), budgets, forced, banned };
};
export const reduced = ({ ops, at }: StepInput, kind: 'mean' | 'max', x: Tensor): Tensor =>
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
/** Returns scores and kept slots with one row per KV head, or one for all. */
export function onKeptRows(cell: StepInput): DemotionContext {
  const { ops, draft } = cell,
    { kept } = draft;
  if (!kept) throw new Error('expected kept slots of a piece before it, got none');
  const { scores, budgets, forced, banned } = onSelectRows(cell),
    rows = Math.max(kept.shape[0], scores.shape[0]),
    each = (x: Tensor): Tensor => ops.broadcast(x, rows),
    wide = each(scores);
  return {
    scores: wide,
    budgets,
    forced: forced && each(forced),
    banned: banned && each(banned),
    kept: ops.mark(kept, wide),
    allot: cell.allot ?? ((counts) => counts),
  };
}
export const withUnits = (cell: StepInput): WithUnits => {
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
/** Returns a draft's checks with the notes of a piece added. */
function checksOf(
  { draft, ops, at }: StepInput,
  { name }: StepAuthor,
  notes: NewNotes['notes'] = [],
): readonly Check[] {
  const layer = layerOf(at);
  return [
    ...draft.checks,
    ...notes.map(({ unless, says }) => ({ bad: ops.firstBad(unless, 0), piece: name, layer, want: '', note: says })),
  ];
}
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
export const leaveScores = (cell: StepInput, result: Scores, by: StepAuthor): DraftSelection => {
  const { scores, state, notes, ...masks } = fields(by, cell, 'scores', result);
  const { draft } = cell;
  return draftOf({
    ...draft,
    scores,
    ...joined(cell, masks),
    state: stateOf(draft.state, by, cell.at, state),
    ...(notes && { checks: checksOf(cell, by, notes) }),
  });
};
export const leaveUnits = (cell: StepInput, result: UnitCut, by: StepAuthor): DraftSelection => {
  const { units, scores } = fields(by, cell, 'units', result);
  return { ...cell.draft, units, unitScores: scores };
};
export const leaveUnitScores = (cell: StepInput, result: UnitScores, by: StepAuthor): DraftSelection => {
  const { unitScores, release, state } = fields(by, cell, 'unitScores', result);
  const { draft } = cell;
  const forced = release ? undefined : draft.forced;
  return draftOf({ ...draft, unitScores, forced, state: stateOf(draft.state, by, cell.at, state) });
};
export const leaveBudgets = (cell: StepInput, result: AllocatorOutput, by: StepAuthor): DraftSelection => {
  const { draft } = cell;
  const { budgets = draft.budgets, state, notes, ...masks } = fields(by, cell, 'budgets', result);
  return draftOf({
    ...draft,
    budgets,
    ...joined(cell, masks),
    state: stateOf(draft.state, by, cell.at, state),
    ...(notes && { checks: checksOf(cell, by, notes) }),
  });
};
export const leaveKept = ({ draft }: StepInput, kept: Tensor): DraftSelection => ({ ...draft, kept });
/** Leaves levels: the coarser one of a slot that has one already. */
export const leaveLevels = ({ draft, ops }: StepInput, levels: Tensor): DraftSelection => ({
  ...draft,
  levels: draft.levels ? ops.max(draft.levels, levels) : levels,
});
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
