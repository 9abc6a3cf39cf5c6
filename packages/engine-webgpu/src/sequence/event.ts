import { isState, recordEvent, readDecisions } from '@kv/core/engine';
import type { AnySignal, LayerContext, BudgetPlan, Tensor } from '@kv/core';
import type { DraftSelection } from '@kv/core';
import type { CompiledPolicy, EventDecision, EventLayer, EventRecord, PacedSteps } from '@kv/core/engine';
import type { Commands, Scope } from '@kv/gpu';
import { expectLevels, levelsIn } from '@kv/engine';
import type { ActivePolicy, CachePart, EventResult, EventTimes, SlotReader } from '@kv/engine';
import { encodeReplaced, encodeSlots } from '../operations.ts';
import type { DecodedParts } from './decoded-parts.ts';
import type { DecidedSlots, SlotSelection } from './device-scope.ts';
import type { DeviceLayer } from './layer.ts';
import type { DeviceStates } from './states.ts';

/** One layer that an event is about. */
export interface EventSubject {
  readonly at: LayerContext;
  readonly layer: DeviceLayer;
  readonly read: (signal: AnySignal) => unknown;
}
/** The context of an event: where it is recorded, and where its results go. */
export interface EventContext {
  readonly scope: Scope;
  readonly shared: DeviceStates;
  readonly decoded: DecodedParts;
  readonly times: EventTimes;
  /** Runs a change that must complete. */
  change<T>(run: () => Promise<T>): Promise<T>;
}
/** A layer's event whose compaction is recorded and whose results are not read yet. */
export interface RecordedLayer {
  readonly layer: DeviceLayer;
  readonly place: EventLayer;
  readonly draft: DraftSelection;
}

/** A policy's decisions about some layers, as tensors that are not read yet. */
export interface DeviceEventDecision {
  readonly places: readonly EventLayer[];
  readonly replaced: EventRecord;
}

/** Records every step of a policy over these layers. */
export function decide(
  { policy, attends }: ActivePolicy,
  subjects: readonly EventSubject[],
  plan: BudgetPlan,
  { scope: { ops }, decoded, times }: EventContext,
): DeviceEventDecision {
  const started = performance.now(),
    places = subjects.map(
      ({ at, read }): EventLayer => ({
        ...{ at, read, above: plan.above },
        budgets: plan.budgets[at.layer],
      }),
    ),
    replaced = between(recordEvent(policy, places, ops, attends), () => decoded.clear());
  times.score += performance.now() - started;
  return { places, replaced };
}

/** Runs it to the end, with `rest` after each of its parts. */
function between<T>(work: PacedSteps<T>, rest: () => void): T {
  for (;;) {
    const { done, value } = work.next();
    rest();
    if (done) return value;
  }
}

/**
 * Runs one event over these layers: every step is recorded, one read returns checks, budgets and kept slots, then
 * compaction is recorded. Nothing changes before the read has passed every check.
 */
export async function runOnDevice(
  active: ActivePolicy,
  subjects: readonly EventSubject[],
  plan: BudgetPlan,
  stage: EventContext,
): Promise<EventResult> {
  const { scope, times } = stage,
    { policy } = active,
    decision = decide(active, subjects, plan, stage),
    { places, replaced } = decision;
  const recorded = subjects.map(
    ({ layer }, i): RecordedLayer => ({ layer, place: places[i], draft: replaced.drafts[i] }),
  );
  return readEvents(scope, recorded, times, ({ kept, levels }, confirm) => {
    if ('error' in replaced) throw replaced.error;
    if (levels)
      expectLevels(
        policy.label,
        levelsIn(levels),
        subjects.map(({ layer }) => layer.cache.headDim),
      );
    return stage.change(async () => {
      const counts = kept.map((lists) => lists.map(({ length }) => length)),
        decided = kept.map((slots, i): DecidedSlots => ({ slots, levels: levels?.[i] }));
      compact(policy, subjects, decision, stage, counts, decided);
      confirm();
    });
  });
}

/**
 * Records one layer's event together with its compaction: it keeps what its plan allows, so no read is needed.
 * `readEvents` reads the results later, from copies in `commands`' scope.
 */
export function recordOnDevice(
  policy: CompiledPolicy,
  subject: EventSubject,
  decision: DeviceEventDecision,
  stage: EventContext,
  commands: Commands,
): RecordedLayer {
  const {
    places: [place],
    replaced,
  } = decision;
  compact(policy, [subject], decision, stage, [place.budgets]);
  const copy = (x: Tensor): Tensor => recordCopy(commands, x),
    { budgets, checks, kept, state, units } = replaced.drafts[0];
  return {
    layer: subject.layer,
    place,
    draft: {
      state,
      budgets: copy(budgets),
      checks: checks.map((check) => ({ ...check, bad: copy(check.bad) })),
      ...(kept && { kept: copy(kept) }),
      // of units, only what is on the host is read later
      ...(units && { units }),
    },
  };
}

/** Records a copy that the scope of `commands` owns. */
export function recordCopy(commands: Commands, x: Tensor): Tensor {
  const out = commands.make(x.shape, x.dtype),
    all = { shape: [1, x.shape.reduce((a, b) => a * b, 1)] };
  encodeSlots(commands, { ...x, ...all }, { ...out, ...all }, all.shape[1]);
  return { ...out, ...(x.lengths && { lengths: recordCopy(commands, x.lengths) }) };
}

/**
 * Reads what events decided, in one read, and confirms it to their layers, within `passed` if given. @throws KvError
 * for a failed check
 */
export async function readEvents(
  scope: Pick<Scope, 'read' | 'ops' | 'name'>,
  recorded: readonly RecordedLayer[],
  times: EventTimes,
  passed: (decided: EventDecision, confirm: () => void) => Promise<void> | void = (_, confirm) => confirm(),
): Promise<EventResult> {
  const started = performance.now(),
    decided = await readDecisions(
      scope,
      recorded.map(({ place }) => place),
      recorded.map(({ draft }) => draft),
    ),
    read = performance.now(),
    { kept, budgets, levels, units, notes } = decided;
  await passed(decided, () => {
    for (const [i, { layer }] of recorded.entries()) layer.confirm(kept[i]);
  });
  times.settle += read - started;
  times.compact += performance.now() - read;
  return {
    budgets,
    kept: recorded.map(({ layer }) => layer.cache.kept().map((row) => Uint32Array.from(row))),
    ...(levels && { levels: recorded.map(({ layer }) => layer.cache.levels()) }),
    ...(units && { units }),
    notes,
  };
}

/**
 * Returns whether an event is known to keep at most what its plan allows: no allocator reads the scores, and no more
 * slots may be forced under a share. The host lays out slots at levels, so it must know them first.
 */
export const isBounded = ({ steps, levels }: CompiledPolicy, { above, budgets, lengths }: BudgetPlan): boolean =>
  !levels &&
  steps.every(({ kind, plan }) => kind !== 'allocator' || plan !== undefined) &&
  budgets.every((heads, l) => heads.every((slots, g) => slots >= Math.min(above?.forced ?? 0, lengths[l][g])));

/**
 * Records the decisions: new keys, values and state, then compaction, to at most `counts [layer][kvHead]` slots.
 * @param decided the slots themselves, where they were read
 * @throws what making new keys or values threw
 */
export function compact(
  policy: CompiledPolicy,
  subjects: readonly EventSubject[],
  { replaced }: DeviceEventDecision,
  { scope: { commands }, shared }: EventContext,
  counts: readonly (readonly number[])[],
  decided?: readonly DecidedSlots[],
): void {
  if ('error' in replaced) throw replaced.error;
  for (const [i, { layer }] of subjects.entries()) {
    const { cache } = layer,
      { kept, state } = replaced.drafts[i];
    for (const { keys, values, biases } of replaced.made[i]) {
      for (const [part, rows] of Object.entries({ keys, values }) as [CachePart, Tensor | undefined][]) {
        if (!rows) continue;
        cache.roundAgain(part);
        encodeReplaced(commands, cache.rows(part), rows);
      }
      if (biases) layer.setBiases(biases);
    }
    writeStates(policy.needs, state, layer.states, shared);
    if (kept) layer.keep(selection(kept, commands), counts[i], decided?.[i]);
  }
}

const selection = (kept: Tensor, commands: Commands): SlotSelection => ({
  kept,
  counts: kept.lengths ?? commands.upload(new Uint32Array(kept.shape[0]).fill(kept.shape[1]), [kept.shape[0]]),
});

/** Records the new state. @param reader whose rows those of query heads are, of a view @defaultValue all */
export function writeStates(
  needs: readonly AnySignal[],
  state: ReadonlyMap<string, Tensor>,
  own: DeviceStates,
  shared: DeviceStates,
  reader?: SlotReader,
): void {
  for (const [id, values] of state) {
    const signal = needs.find((s) => isState(s) && s.id === id);
    if (signal && isState(signal)) (signal.state.rows === 'model' ? shared : own).write(signal, values, reader);
  }
}
