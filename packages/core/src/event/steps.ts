import type { StepCache } from './step-cache.ts';
import type { ForcedAboveShare, LayerContext, StepInput, DraftSelection, Step } from '../piece/atoms.ts';
import { runGuarded, runStep } from './boundary.ts';
import { KvError } from '../tensor/errors.ts';
import type { Ops } from '../tensor/maths.ts';
import { range } from '../tensor/range.ts';
import { sameSignal, signalKey } from '../piece/signals.ts';
import type { AnySignal, Signal } from '../piece/signals.ts';

/** One layer of an event, as an engine provides it. */
export interface EventLayer {
  readonly at: LayerContext;
  /** Slots to keep per row of the selection. */
  readonly budgets: readonly number[];
  /** Set if the budgets come from a share. */
  readonly above?: ForcedAboveShare | undefined;
  read(signal: AnySignal): unknown;
  /** Results of steps in earlier layers, valid while their tensors last. */
  readonly stepCache?: StepCache | undefined;
}

/** Returns a function that reads the signals a step or hook declares, and refuses others. */
export const signalReader =
  (
    by: { readonly label: string; readonly needs: readonly AnySignal[] },
    layer: Pick<EventLayer, 'read'>,
    state: DraftSelection['state'] = new Map(),
  ) =>
  <V>(signal: Signal<string, V>): V => {
    if (!by.needs.some((s) => sameSignal(s, signal)))
      throw new KvError(
        by.label,
        `reads the signal ${signalKey(signal)}, which it does not declare (${by.needs.map(signalKey).join(', ') || 'none'})`,
      );
    return (state.get(signal.id) ?? layer.read(signal)) as V;
  };
/**
 * Getters that report reads of core's signals that a piece has not declared. Used as a prototype, since a Proxy would
 * slow down every read.
 */
export const undeclaredSignals: object = /* @__PURE__ */ (() => {
  const getters = {};
  for (const as of [
    'keys',
    'values',
    'positions',
    'biases',
    'tokens',
    'queries',
    'attention',
    'outputNorms',
    'rope',
    'embeddings',
  ])
    Object.defineProperty(getters, as, {
      get(): never {
        throw new Error(`reads the signal '${as}', expected it among its needs`);
      },
    });
  return getters;
})();
export const cellOf = (
  layer: EventLayer,
  ops: Ops,
  draft: DraftSelection,
  step: Parameters<typeof signalReader>[0],
): StepInput => ({
  at: layer.at,
  ops,
  draft,
  stepCache: layer.stepCache,
  undeclared: undeclaredSignals,
  read: signalReader(step, layer, draft.state),
});

/** Work that yields from time to time, so that an engine can serve other requests. */
export type PacedSteps<T> = Generator<void, T>;
/** Runs it to the end. */
export function finish<T>(work: PacedSteps<T>): T {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

type RunStep = (step: Step, cells: readonly StepInput[]) => readonly DraftSelection[];
/** Runs steps, yielding after every step of a layer, or of all layers if the step reaches over the model. */
export function* pacedSteps(
  steps: readonly Step[],
  layers: readonly EventLayer[],
  ops: Ops,
  drafts: readonly DraftSelection[],
  by: RunStep = runStep,
): PacedSteps<readonly DraftSelection[]> {
  let now = drafts;
  for (const step of steps) {
    const before = now,
      cell = (i: number): StepInput =>
        cellOf(layers[i], ops, step.kind === 'selector' ? withForced(layers[i], ops, before[i]) : before[i], step),
      parts = step.reach === 'model' ? [range(0, layers.length)] : layers.map((_, i) => [i]),
      next: DraftSelection[] = [];
    for (const part of parts) {
      next.push(...by(step, Array.from(part, cell)));
      yield;
    }
    now = next;
  }
  return now;
}
/**
 * Returns the draft that a selector reads: under a share, a head's budget is raised to hold all of its forced slots.
 */
function withForced({ at, above, stepCache: known }: EventLayer, ops: Ops, draft: DraftSelection): DraftSelection {
  const { budgets, forced } = draft;
  if (!above || !forced) return draft;
  const make = (): DraftSelection =>
    runGuarded('budget', at.layer, () =>
      Object.freeze({
        ...draft,
        allotted: budgets,
        budgets: ops.max(budgets, ops.min(above.forced, ops.count(ops.reduceRows('max', forced, at.selectRows)))),
      }),
    );
  return known?.withForced(draft, make) ?? make();
}
/**
 * Runs steps in order over all the layers given and returns their drafts; `by` runs one step, by default with its
 * checks.
 */
export const runSteps = (...of: Parameters<typeof pacedSteps>): readonly DraftSelection[] => finish(pacedSteps(...of));

/** Returns the draft an event starts from. */
export const emptyDraft = (layer: EventLayer, ops: Ops): DraftSelection =>
  Object.freeze({
    budgets: ops.from({ data: Float32Array.from(layer.budgets), shape: [layer.budgets.length, 1] }),
    state: new Map(),
    checks: Object.freeze([]),
  });

/** Returns the start drafts of layers. */
export const starting = (layers: readonly EventLayer[], ops: Ops): readonly DraftSelection[] =>
  layers.map((layer) => {
    const make = (): DraftSelection => emptyDraft(layer, ops);
    return layer.stepCache?.start(layer.budgets, make) ?? make();
  });
