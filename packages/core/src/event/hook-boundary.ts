import type {
  AttendHook,
  AttendingQueries,
  AttentionTerm,
  AttentionTerms,
  EvictHook,
  LayerContext,
  StepInput,
  Check,
  CompactHook,
  Replacement,
  DraftSelection,
  FreezeHook,
  StepHook,
  ViewHook,
  ViewBounds,
} from '../piece/atoms.ts';
import {
  expectObject,
  expectState,
  expectTensor,
  runGuarded,
  inNameOf,
  shownValue,
  rowsOf,
  where,
} from './boundary.ts';
import type { ValueOrigin } from './boundary.ts';
import { KvError } from '../tensor/errors.ts';
import type { Ops } from '../tensor/maths.ts';
import { showValue } from '../piece/option.ts';
import { readOnly } from './read-only.ts';
import { pacedEvent } from './run.ts';
import type { CompiledPolicy } from './run.ts';
import { signalReader, undeclaredSignals } from './steps.ts';
import type { EventLayer, PacedSteps } from './steps.ts';
import { signalKey } from '../piece/signals.ts';
import type { AnySignal, ProviderEngine } from '../piece/signals.ts';
import type { Tensor } from '../tensor/tensor.ts';

// How engines run hooks: a result is either what the hook promised, or an error with its name and layer.

/** One layer as hooks see it. */
export interface HookPlace {
  readonly at: LayerContext;
  readonly ops: Ops;
  read(signal: AnySignal): unknown;
}
type Named = Parameters<typeof signalReader>[0] & { readonly name: string };

const cellOf = (hook: Named, { at, ops, read }: HookPlace, draft?: DraftSelection): StepInput => ({
  at,
  ops,
  draft: draft ?? { budgets: ops.from({ data: [at.budget], shape: [1, 1] }), state: new Map(), checks: [] },
  undeclared: undeclaredSignals,
  read: signalReader(hook, { read }),
});
const fromOf = ({ name }: Named, { at: { layer }, ops }: Pick<HookPlace, 'at' | 'ops'>): ValueOrigin => ({
  name,
  layer,
  ops,
});

/** Largest position: engines compare positions as u32. */
const MOST = 2 ** 32 - 1;
/** Returns the first whole position from x on. @throws KvError unless x is a number */
function position({ name, layer }: Pick<ValueOrigin, 'name' | 'layer'>, what: string, x: unknown): number {
  if (typeof x !== 'number' || Number.isNaN(x))
    throw new KvError(where(name, layer), `expected ${what} as a position, got ${shownValue(x)}`);
  return Math.min(MOST, Math.max(0, Math.ceil(x)));
}

/** Returns what a view leaves visible in a layer at this step. @throws KvError naming view and layer */
export function runView(hook: ViewHook, place: HookPlace): ViewBounds {
  const { at } = place,
    from = fromOf(hook, place),
    { name, layer } = from;
  return runGuarded(name, layer, () => {
    const seen: unknown = readOnly(name, [cellOf(hook, place)], ([cell]) => hook.run(cell));
    expectObject(from, 'what stays visible', seen);
    const { mask, sinks, lower, state, chosen, checks } = seen as ViewBounds,
      slots = { rows: rowsOf(at), columns: at.slots, dtype: 'f32' } as const;
    if (mask !== undefined) expectTensor(from, 'a mask', mask, slots);
    if (lower !== undefined && typeof lower !== 'function')
      throw new KvError(where(name, layer), `expected lower as a function of a position, got ${showValue(lower)}`);
    if (state !== undefined) expectState(from, at, hook.needs, state);
    if (chosen !== undefined) {
      expectObject(from, 'what the mask was chosen by', chosen);
      expectTensor(from, 'the scores it chose by', chosen.scores, slots);
      if (chosen.forced !== undefined) expectTensor(from, 'forced slots', chosen.forced, slots);
      if (chosen.active !== undefined) expectTensor(from, 'active rows', chosen.active, { ...slots, columns: 1 });
    }
    return {
      ...(mask !== undefined && { mask }),
      ...(sinks !== undefined && { sinks: position(from, 'sinks', sinks) }),
      ...(lower && {
        lower: (t: number) =>
          position(
            from,
            'the first visible position',
            runGuarded(name, layer, () => lower.call(seen, t)),
          ),
      }),
      ...(state !== undefined && { state }),
      ...(chosen !== undefined && { chosen }),
      ...(checks !== undefined && { checks }),
    };
  });
}

/** Returns the new state that a step hook writes, one map per place. @throws KvError naming hook and layer */
export function runStepHook(hook: StepHook, places: readonly HookPlace[]): readonly ReadonlyMap<string, Tensor>[] {
  const layer = places[0]?.at.layer ?? 0,
    made: unknown = runGuarded(hook.name, layer, () =>
      readOnly(
        hook.name,
        places.map((place) => cellOf(hook, place)),
        hook.run,
      ),
    );
  if (!Array.isArray(made) || made.length !== places.length)
    throw new KvError(
      where(hook.name, layer),
      `expected new state for each of ${places.length} layers, got ${Array.isArray(made) ? made.length : shownValue(made)}`,
    );
  for (const [i, place] of places.entries())
    runGuarded(hook.name, place.at.layer, () => expectState(fromOf(hook, place), place.at, hook.needs, made[i]));
  return made as readonly ReadonlyMap<string, Tensor>[];
}

/** The largest bias: far above what a slot can stand for, and far below the score that says that a slot is hidden. */
export const MOST_BIAS = 10_000;

/** Runs a hook after the selection of a draft, and checks what it gives. @throws KvError naming hook and layer */
function afterSelection<T>(
  hook: Named & { readonly label: string },
  place: HookPlace,
  draft: DraftSelection,
  run: (cell: StepInput & { readonly kept: Tensor }) => unknown,
  check: (made: unknown, from: ValueOrigin) => T,
): T {
  const from = fromOf(hook, place),
    { name, layer } = from,
    { kept } = draft;
  if (!kept) throw new KvError(where(name, layer), 'expected a policy that ends in a selector, got one without');
  return runGuarded(name, layer, () =>
    check(
      readOnly(name, [{ ...cellOf(hook, place, draft), kept }], ([cell]) => run(cell)),
      from,
    ),
  );
}

/** What replaces the layer's own numbers, and the checks on them. */
export interface ReplacementCache extends Replacement {
  readonly checks: readonly Check[];
}
/**
 * Returns the keys, values and biases that a hook gives before compaction, recorded before the event is read.
 * @throws KvError naming hook and layer
 */
function runCompact(
  hook: CompactHook,
  place: HookPlace,
  draft: DraftSelection,
  terms: ((rows: AttendingQueries) => AttentionTerms) | undefined,
): ReplacementCache {
  const { at, ops } = place,
    run = (cell: StepInput & { readonly kept: Tensor }): unknown => hook.run({ ...cell, terms });
  return afterSelection(hook, place, draft, run, (made, from) => {
    const { name, layer } = from;
    expectObject(from, 'keys, values or biases', made);
    const { keys, values, biases, ...others } = made as Replacement,
      checks: Check[] = [],
      [other] = Object.keys(others);
    if (other !== undefined) throw new KvError(where(name, layer), `expected keys, values or biases, got '${other}'`);
    if (biases !== undefined) {
      if (!hook.givesBiases)
        throw new KvError(where(name, layer), `expected 'biases' in its declaration, as it gives biases, got none`);
      expectTensor(from, 'biases', biases, { rows: [at.kvHeads], columns: at.slots, dtype: 'f32' });
      const bad = ops.firstBad(ops.sub(MOST_BIAS, ops.map('abs', biases)), 0);
      const want = `finite and at most ${MOST_BIAS} in size`;
      checks.push({ bad, piece: name, layer, what: 'biases', want, got: 'another', columns: at.slots, late: true });
    }
    for (const [what, x] of Object.entries({ keys, values })) {
      if (x === undefined) continue;
      expectTensor(from, what, x, { rows: [at.kvHeads], columns: at.slots, channels: at.headDim, dtype: 'f32' });
      const bad = ops.firstBad(ops.norm(x, 1));
      checks.push({ bad, piece: name, layer, what, want: 'finite', columns: at.slots, late: true });
    }
    return { keys, values, biases, checks };
  });
}

/**
 * Returns a draft with the state that a hook folds the leaving slots into, and the promise that it is finite.
 * @throws KvError naming hook and layer
 */
function runEvict(hook: EvictHook, place: HookPlace, draft: DraftSelection): DraftSelection {
  const { at, ops } = place;
  return afterSelection(hook, place, draft, hook.run.bind(hook), (made, from) => {
    const { name, layer } = from;
    expectState(from, at, hook.needs, made);
    const state = made as ReadonlyMap<string, Tensor>,
      checks = Array.from(
        state.values(),
        (x): Check => ({
          ...{
            bad: ops.firstBad(x),
            piece: name,
            layer,
            what: 'state',
            want: 'finite',
            columns: x.shape[1],
            late: true,
          },
        }),
      );
    return { ...draft, state: new Map([...draft.state, ...state]), checks: [...draft.checks, ...checks] };
  });
}

/**
 * Returns what a hook adds to the attention of these queries.
 * @param state new state, before it is stored
 * @throws KvError naming hook and layer
 */
export function runAttend(
  hook: AttendHook,
  place: HookPlace,
  rows: AttendingQueries,
  state?: DraftSelection['state'],
): AttentionTerm {
  const from = fromOf(hook, place),
    { name, layer } = from,
    [heads, m] = rows.queries.shape;
  return runGuarded(name, layer, () => {
    const cell = { ...cellOf(hook, place), read: signalReader(hook, place, state), rows },
      made: unknown = readOnly(name, [cell], ([one]) => hook.run(one));
    expectObject(from, 'masses and values', made);
    const { masses, values } = made as AttentionTerm;
    expectTensor(from, 'masses', masses, { rows: [heads], columns: m, dtype: 'f32' });
    expectTensor(from, 'values', values, { rows: [heads], columns: m, channels: place.at.headDim, dtype: 'f32' });
    return { masses, values };
  });
}

/** Drafts of an event, and what replaces the layers' numbers before compaction, one list per layer. */
export type EventRecord =
  | { readonly drafts: readonly DraftSelection[]; readonly made: readonly (readonly ReplacementCache[])[] }
  | { readonly drafts: readonly DraftSelection[]; readonly error: unknown };
/**
 * Records an event: every step, then the policy's new keys and values, adding their checks to those of the drafts. An
 * error in the latter is held back until the drafts were checked. Yields after every step and every compact hook of a
 * layer, so that other work waits for one of them at most.
 * @param attends adds a term to attention @defaultValue the policy's own hook
 */
export function* recordEvent(
  policy: CompiledPolicy,
  layers: readonly EventLayer[],
  ops: Ops,
  attends?: AttendHook,
): PacedSteps<EventRecord> {
  const drafts = yield* pacedEvent(policy, layers, ops);
  return yield* recordHooks(policy, layers, drafts, ops, attends);
}

/** Records the hooks of an event after its selections: what is folded, then the new keys, values and biases. */
export function* recordHooks(
  policy: CompiledPolicy,
  layers: readonly EventLayer[],
  drafts: readonly DraftSelection[],
  ops: Ops,
  attends: AttendHook | undefined = policy.hooks('attend')[0],
): PacedSteps<EventRecord> {
  const hooks = policy.hooks('compact'),
    [fold] = policy.hooks('evict');
  try {
    const made: ReplacementCache[][] = [],
      folded: DraftSelection[] = [];
    for (const [i, draft] of drafts.entries()) {
      const place = { ...layers[i], ops },
        next = fold ? runEvict(fold, place, draft) : draft,
        terms =
          attends &&
          ((rows: AttendingQueries): AttentionTerms => ({
            before: runAttend(attends, place, rows),
            after: runAttend(attends, place, rows, next.state),
          }));
      folded.push(next);
      made.push(hooks.map((hook) => runCompact(hook, place, next, terms)));
      if (fold || hooks.length > 0) yield;
    }
    return {
      made,
      drafts: folded.map((draft, i) => ({
        ...draft,
        checks: [...draft.checks, ...made[i].flatMap(({ checks }) => checks)],
      })),
    };
  } catch (error) {
    return { drafts, error };
  }
}

/** Returns the prompt positions that a layer takes from the one below. @throws KvError naming hook and layer */
export function runFreeze(hook: FreezeHook, at: LayerContext): { readonly sinks: number; readonly below: number } {
  const from = { name: hook.name, layer: at.layer };
  return runGuarded(hook.name, at.layer, () => {
    const made: unknown = hook.run(at);
    expectObject(from, 'sinks and below', made);
    const { sinks, below } = made as { readonly sinks?: unknown; readonly below?: unknown };
    return { sinks: position(from, 'sinks', sinks), below: position(from, 'below', below) };
  });
}

/**
 * Returns a provider's value of a signal for a layer. @throws KvError naming signal and layer; the reason of an abort
 * unchanged
 */
export async function runProvider(
  signal: AnySignal,
  engine: ProviderEngine,
  layer: number,
  abort?: AbortSignal,
): Promise<unknown> {
  const key = signalKey(signal);
  let value: unknown;
  try {
    value = await signal.provide?.(engine, layer);
  } catch (cause) {
    throw abort?.aborted && cause === abort.reason ? cause : inNameOf(key, layer, cause);
  }
  if (value === undefined || value === null)
    throw new KvError(where(key, layer), `expected a value from its provider, got ${showValue(value)}`);
  return value;
}
