import { isState, replacements, runEvent, settle } from '@kv/core/engine';
import type { AnySignal, At, Plan, Tensor } from '@kv/core';
import type { Draft } from '@kv/core';
import type { Compiled, EventLayer, Replaced } from '@kv/core/engine';
import type { Commands, Scope } from '@kv/gpu';
import type { EventResult } from '@kv/models';
import type { EventTimes } from '@kv/models/engine';
import { encodeSlots } from '../operations.ts';
import type { Selection } from './home.ts';
import type { DeviceLayer } from './layer.ts';
import type { DeviceStates } from './states.ts';

/** One layer that an event is about. */
export interface Subject {
  readonly at: At;
  readonly layer: DeviceLayer;
  readonly read: (signal: AnySignal) => unknown;
}
/** Where an event is recorded, and where its results go. */
export interface Stage {
  readonly scope: Scope;
  readonly shared: DeviceStates;
  readonly times: EventTimes;
  /** Runs what must not end in the middle. */
  change<T>(run: () => Promise<T>): Promise<T>;
}
/** A layer's event whose compaction is recorded, but whose results nobody has read. */
export interface Recorded {
  readonly layer: DeviceLayer;
  readonly place: EventLayer;
  readonly draft: Draft;
}

const placeOf = ({ at, read }: Subject, plan: Plan): EventLayer => ({ at, read, budgets: plan.budgets[at.layer] });

/**
 * One event over these layers: every step is recorded, one read brings checks, budgets and kept slots, then compaction
 * is recorded. Nothing changes before the read has passed every check.
 */
export async function runOnDevice(
  policy: Compiled,
  subjects: readonly Subject[],
  plan: Plan,
  stage: Stage,
): Promise<EventResult> {
  const { scope, times } = stage,
    started = performance.now(),
    places = subjects.map((subject) => placeOf(subject, plan)),
    drafts = runEvent(policy, places, scope.ops);
  const replaced = replacements(policy, places, drafts, scope.ops);
  times.score += performance.now() - started;
  const recorded = subjects.map(({ layer }, i): Recorded => ({ layer, place: places[i], draft: replaced.drafts[i] }));
  return settled(scope, recorded, times, (slots, confirm) => {
    if ('error' in replaced) throw replaced.error;
    return stage.change(async () => {
      for (const [i, subject] of subjects.entries())
        compact(
          policy,
          subject,
          drafts[i],
          replaced.made[i],
          stage,
          slots[i].map(({ length }) => length),
        );
      confirm();
    });
  });
}

/**
 * Records one layer's event with its compaction at once: it keeps what its plan allows, so that nobody need wait.
 * `settled` reads what came of it, from copies in `commands`' scope.
 */
export function recordOnDevice(
  policy: Compiled,
  subject: Subject,
  plan: Plan,
  stage: Stage,
  commands: Commands,
): Recorded {
  const { scope, times } = stage,
    started = performance.now(),
    place = placeOf(subject, plan),
    drafts = runEvent(policy, [place], scope.ops),
    replaced = replacements(policy, [place], drafts, scope.ops);
  times.score += performance.now() - started;
  if ('error' in replaced) throw replaced.error;
  compact(policy, subject, drafts[0], replaced.made[0], stage, place.budgets);
  const copy = (x: Tensor): Tensor => copied(commands, x),
    { budgets, checks, kept, state } = replaced.drafts[0];
  return {
    layer: subject.layer,
    place,
    draft: {
      state,
      budgets: copy(budgets),
      checks: checks.map((check) => ({ ...check, bad: copy(check.bad) })),
      ...(kept && { kept: copy(kept) }),
    },
  };
}

/** Records a copy that the scope of `commands` owns. */
export function copied(commands: Commands, x: Tensor): Tensor {
  const out = commands.make(x.shape, x.dtype),
    all = { shape: [1, x.shape.reduce((a, b) => a * b, 1)] };
  encodeSlots(commands, { ...x, ...all }, { ...out, ...all }, all.shape[1]);
  return { ...out, ...(x.lengths && { lengths: copied(commands, x.lengths) }) };
}

/**
 * Reads what events decided, in one read, and tells their layers, in `passed` if it is given. @throws KvError for a
 * check that failed.
 */
export async function settled(
  scope: Pick<Scope, 'read' | 'ops' | 'name'>,
  recorded: readonly Recorded[],
  times: EventTimes,
  passed: (slots: readonly (readonly Uint32Array[])[], confirm: () => void) => Promise<void> | void = (_, confirm) =>
    confirm(),
): Promise<EventResult> {
  const started = performance.now(),
    { kept, budgets } = await settle(
      scope,
      recorded.map(({ place }) => place),
      recorded.map(({ draft }) => draft),
    ),
    read = performance.now();
  await passed(kept, () => {
    for (const [i, { layer }] of recorded.entries()) layer.confirm(kept[i]);
  });
  times.settle += read - started;
  times.compact += performance.now() - read;
  return { budgets, kept: recorded.map(({ layer }) => layer.cache.kept()) };
}

/** Whether what an event keeps is known to be what its plan allows at most: no allocator looks at the scores. */
export const bounded = ({ steps }: Compiled): boolean =>
  steps.every(({ kind, plan }) => kind !== 'allocator' || plan !== undefined);

function compact(
  policy: Compiled,
  { layer }: Subject,
  draft: Draft,
  made: readonly Replaced[],
  { scope: { commands }, shared }: Stage,
  counts: readonly number[],
): void {
  const { cache } = layer;
  for (const { keys, values } of made) {
    if (keys) encodeSlots(commands, keys, cache.keys, keys.shape[1]);
    if (values) encodeSlots(commands, values, cache.values, values.shape[1]);
  }
  writeStates(policy.needs, draft.state, layer.states, shared);
  if (draft.kept) layer.keep(selection(draft.kept, commands), counts);
}

const selection = (kept: Tensor, commands: Commands): Selection => ({
  kept,
  counts: kept.lengths ?? commands.upload(new Uint32Array(kept.shape[0]).fill(kept.shape[1]), [kept.shape[0]]),
});

/** Records new state where it lives. */
export function writeStates(
  needs: readonly AnySignal[],
  state: ReadonlyMap<string, Tensor>,
  own: DeviceStates,
  shared: DeviceStates,
): void {
  for (const [id, values] of state) {
    const signal = needs.find((s) => isState(s) && s.id === id);
    if (signal && isState(signal)) (signal.state.rows === 'model' ? shared : own).write(signal, values);
  }
}
