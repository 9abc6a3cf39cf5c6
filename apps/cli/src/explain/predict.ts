import { KvError } from '@kv/core';
import { range, sumOf } from '@kv/core/shared';
import type { AnySignal, Budget, LevelShares } from '@kv/core';
import { isInputSignal, isState, signalKey, slotState, stateColumns } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { deltaChannels, ffnOf, slotHeads, slotLayers, spaceChannels, type Mixer } from '@kv/checkpoints';
import { planGpu } from '@kv/gpu';
import { shapeCosts } from '@kv/engine-webgpu';
import type { ShapeCosts } from '@kv/engine-webgpu';
import {
  foldedBytes,
  joinedHeads,
  keptLayers,
  keyValueBytes,
  predictCache,
  predictViews,
  slotBytes,
  slotModel,
  stateBytes,
  tokenBytes,
  viewsActing,
  waits,
  windowOf,
} from '@kv/engine';
import type { CacheForm, CacheUsage, ModelConfig } from '@kv/models';
import { sharedTexts } from '../cache-text.ts';
import { hostOnly } from '../engine.ts';
import { otherForms, type OtherForm } from './other-forms.ts';
import { keptSums, onDevice } from './device-cost.ts';
import type { DeviceCost } from './device-cost.ts';

/** Predicted costs of a policy on a prompt. */
export interface Prediction {
  readonly policy: string;
  readonly needs: readonly { readonly signal: string; readonly cost: string }[];
  readonly passes: readonly string[];
  readonly evicts: boolean;
  readonly when: string;
  /** Slots of every layer and KV head after the event. */
  readonly budgets: readonly (readonly number[])[];
  readonly notes: readonly string[];
  /** How keys and values are stored, and the bytes that a token adds to a full cache. */
  readonly cache: Pick<CacheUsage, 'form' | 'bytesPerToken'>;
  /** Shares of the kept slots at each level, of every demotion; an empty one says its own in a run. */
  readonly levels?: readonly LevelShares[];
  /** Bytes of the cache before and after the event in the other forms. */
  readonly otherForms: readonly OtherForm[];
  readonly bytes: {
    readonly before: number;
    readonly after: number;
    readonly peak: number;
    readonly rings: number;
    readonly statistics: number;
    /** Numbers that pieces keep from event to event. */
    readonly pieceNumbers: number;
    /** States of layers that keep no slots, whatever the length. */
    readonly layerStates: number;
    /** Keys and values of one layer as f32, which pieces read, where they are not stored so. */
    readonly decoded: number;
  };
  /** Multiply-adds of prefill, of the event's extra passes, and of one decoded token before and after it. */
  readonly multiplyAdds: {
    readonly prefill: number;
    readonly passes: number;
    readonly tokenBefore: number;
    readonly tokenAfter: number;
  };
  /**
   * What a decoded token reads under views, over all layers and heads: slots that query heads attend to, of as
   * many, numbers that are read to choose them, and the bytes of both. Null if a view of its own kind decides in a run;
   * absent if no view acts.
   */
  readonly views?: {
    readonly slots: number;
    readonly of: number;
    readonly numbers: number;
    readonly bytes: number;
  } | null;
  /** Recorded operations of one event over all layers. */
  readonly operations: Readonly<Record<string, number>>;
  /** Costs on a GPU: dispatches, bytes and operations; absent where the policy does not run there. */
  readonly device?: DeviceCost;
  /** Why it does not, if so. */
  readonly onDevice?: string;
}

/** Returns the costs of a model of this shape on a device. */
export const plannedCosts = (config: ModelConfig): Promise<ShapeCosts> => shapeCosts(planGpu(), config);

/**
 * Predicts the costs of a policy. @throws KvError for a length beyond the context, or a budget below what the policy
 * forces
 */
export async function predict(
  policy: CompiledPolicy,
  model: ModelConfig,
  length: number,
  given: Budget,
  form: CacheForm,
  costs?: ShapeCosts,
): Promise<Prediction> {
  const config = slotModel(model),
    { layers: L, maxPositions } = config,
    heads = joinedHeads(config),
    width = sumOf(heads.map(({ queryHeads, headDim }) => queryHeads * headDim)); // of a query, all layers together
  if (length > maxPositions)
    throw new KvError('--length', `expected at most ${maxPositions} tokens, the context of the model, got ${length}`);
  const { budget, budgets, plan, events, before, after, peak } = predictCache(
      policy,
      model,
      length,
      given,
      form,
      '--budget',
    ),
    held = Array.from({ length: L }, (_, l) => Math.min(length, config.attention.windows[l] ?? Infinity));
  const window = Math.max(0, ...policy.needs.map(windowOf)),
    passing = policy.needs.filter(
      ({ id, cost, provide }) => cost === 'pass' && !provide && id !== 'attention.accumulated',
    ).length,
    statistics = sumOf(held.map((n, l) => n * (keptSums(policy.needs, heads[l]) + heads[l].queryHeads * passing)));
  /** Returns the multiply-adds of some tokens after `before` others. */
  const reading = (tokens: number, before = 0): number =>
    tokens * perToken(model) + width * tokens * (2 * before + tokens + 1);
  const prefill = reading(length);
  const question = { length, budget, events, multiplyAdds: prefill };
  const views = viewsActing(policy, 'decode').length > 0 ? readByViews(policy, config, length, form) : undefined;
  const { device, calls } = await onDevice(policy, config, question, costs ?? (await plannedCosts(model)));
  const refused = hostOnly([policy]);
  return {
    policy: policy.label === '' ? 'full' : policy.label,
    needs: policy.needs.map((signal) => ({ signal: signalKey(signal), cost: signal.cost })),
    passes: passesOf(policy, window),
    evicts: policy.evicts,
    when: !policy.evicts
      ? 'never'
      : waits(policy)
        ? 'once, when every layer has the whole prompt'
        : 'layer by layer, as the prompt passes',
    budgets,
    notes: [
      ...(policy.choosesBudget
        ? ['the policy finds its own size in a run: slots and bytes are those of the budget given']
        : []),
      ...(plan?.notes ?? []),
      ...windowNotes(config, length),
      ...layerNotes(model),
    ],
    cache: { form, bytesPerToken: tokenBytes(form, config) },
    ...(policy.levels && { levels: policy.levels }),
    otherForms: otherForms(policy, model, length, given, form),
    bytes: {
      before,
      after,
      peak: Math.max(peak, (waits(policy) ? before : peak) + (events ? copyBytes(policy, model, length, form) : 0)),
      rings: window === 0 ? 0 : Math.min(window, length) * (width * 4 + 4 * L),
      statistics: statistics * 4,
      pieceNumbers: pieceBytes(policy, config, length) - foldedBytes(policy, config), // which `after` holds
      layerStates: stateBytes(model),
      decoded:
        events && form !== 'f32'
          ? 4 * Math.max(...held.map((n, l) => n * heads[l].kvHeads * heads[l].headDim)) * partsRead(policy)
          : 0,
    },
    multiplyAdds: {
      prefill,
      passes:
        width * length * window +
        sumOf(
          policy.needs.filter(secondPass).map(({ feeds }) => {
            const more = feeds?.({ encode, ids: [...range(0, length)] }).length;
            return more === undefined ? prefill : reading(more, length);
          }),
        ),
      tokenBefore: perToken(model) + 2 * sumOf(held.map((n, l) => n * heads[l].queryHeads * heads[l].headDim)),
      tokenAfter:
        perToken(model) +
        (events ? termWork(policy, model) : 0) +
        (views
          ? (2 * sumOf(heads.map(({ headDim }) => headDim)) * views.slots) / L + views.numbers
          : 2 * sumOf(budgets.map((of, l) => (sumOf(of) * heads[l].queryHeads * heads[l].headDim) / heads[l].kvHeads))),
    },
    ...(views !== undefined && { views }),
    operations: countsOf(calls.filter((name) => name !== 'from')),
    ...(refused === undefined ? { device } : { onDevice: refused }),
  };
}

/** Predicts what the token after a prompt reads under views. */
function readByViews(
  policy: CompiledPolicy,
  config: ModelConfig,
  promptLength: number,
  form: CacheForm,
): Required<Prediction>['views'] {
  const {
      layers,
      attention: { windows },
    } = config,
    heads = joinedHeads(config),
    length = promptLength + 1,
    pair = sumOf(heads.map(({ headDim }) => keyValueBytes(form, headDim))) / layers,
    seen = Array.from({ length: layers }, (_, l) => Math.min(length, windows[l] ?? Infinity)),
    places = seen.map((slots, layer) => ({
      ...{ layer, layers, ...heads[layer], step: 1, promptLength, length, slots },
      ...{ aligned: true, budget: slots, selectRows: heads[layer].queryHeads },
    })),
    reads = predictViews(policy, places);
  return reads
    ? {
        ...reads,
        of: sumOf(seen.map((n, l) => n * heads[l].queryHeads)),
        bytes: pair * reads.slots + 4 * reads.numbers,
      }
    : null;
}

/** Notes on layers with sliding windows, which hold less than the prompt under any policy. */
function windowNotes({ layers, attention: { windows } }: ModelConfig, length: number): readonly string[] {
  const short = windows.filter((window) => window < length);
  if (short.length === 0) return [];
  const sizes = [...new Set(short)].sort((a, b) => a - b).join(' or ');
  return [`${short.length} of ${layers} layers have a sliding window of ${sizes} and never hold more slots than that`];
}

/** Notes on layers that keep no slots. */
function layerNotes(config: ModelConfig): readonly string[] {
  const { layers } = config,
    slots = slotLayers(config).length,
    shared = sharedTexts(config),
    others = [
      ...(stateBytes(config) > 0 ? ['others carry a state of fixed size'] : []),
      ...shared,
      ...(shared.length > 0 ? ['a score counts the queries of all that read a slot'] : []),
    ];
  return slots === layers
    ? []
    : [`${slots} of ${layers} layers keep slots, and the policy sees these alone: ${others.join('; ')}`];
}

function countsOf(names: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

/** Returns the multiply-adds of the matrix products and states of one token, the head included. */
const perToken = (config: ModelConfig): number =>
  config.mixers.reduce(
    (sum, mixer, layer) => sum + mixerWork(mixer, config) + feedForwardWork(config, layer),
    // the head, the product of layers' own inputs, and two of these in each layer
    config.hidden * (config.vocab + 3 * config.layers * (config.perLayer ?? 0)),
  );

/** Returns those of a layer after its mixer: of experts, the router and those of a token. */
function feedForwardWork(config: ModelConfig, layer: number): number {
  const { hidden, experts } = config;
  if (!experts?.layers[layer]) return 3 * hidden * ffnOf(config, layer);
  const { count, width, routing, shared } = experts;
  return (
    hidden * (count + 3 * (routing.active * width + (shared ? ffnOf(config, layer) : 0)) + (shared?.gated ? 1 : 0))
  );
}

function mixerWork(mixer: Mixer, { queryHeads, hidden, attention }: ModelConfig): number {
  if (mixer.kind === 'attention') {
    const { kvHeads, headDim, slotsOf, valuesOfKeys } = mixer,
      own = slotsOf !== undefined ? 0 : valuesOfKeys ? kvHeads : 2 * kvHeads;
    return hidden * headDim * ((attention.outputGate ? 3 : 2) * queryHeads + own);
  }
  if (mixer.kind === 'shortConvolution') return mixer.channels * (4 * hidden + mixer.kernel);
  if (mixer.kind === 'stateSpace') {
    const { heads, headDim, stateDim, kernel } = mixer,
      channels = spaceChannels(mixer);
    return hidden * (channels + heads * (2 * headDim + 1)) + channels * kernel + 2 * heads * stateDim * headDim;
  }
  const { valueHeads, keyDim, valueDim, kernel } = mixer,
    channels = deltaChannels(mixer);
  return hidden * (channels + 2 * valueHeads * (valueDim + 1)) + channels * kernel + 3 * valueHeads * keyDim * valueDim;
}

/** Returns about as many ids as a text has tokens. */
const encode = (text: string): readonly number[] => [...range(0, Math.ceil(text.length / 4))];

/** Returns the most bytes of slots that a copy holds while a second pass fills it: with what it feeds, or layer by layer. */
function copyBytes({ needs }: CompiledPolicy, model: ModelConfig, length: number, form: CacheForm): number {
  const { attention } = slotModel(model),
    slot = slotHeads(model).map(({ kvHeads, headDim }) => kvHeads * slotBytes(form, headDim)),
    whole = slot.map((bytes) => bytes * length),
    shared = keptLayers(model).readers.some((readers) => readers.length > 1);
  return Math.max(
    0,
    ...needs.filter(secondPass).map(({ feeds }) => {
      const more = feeds?.({ encode, ids: [...range(0, length)] }).length;
      // where layers read the slots of others, those of all layers stay
      if (more === undefined) return Math.max(...whole) + (shared ? sumOf(whole) : 0);
      return sumOf(slot.map((bytes, l) => bytes * (Math.min(length, attention.windows[l] ?? Infinity) + more)));
    }),
  );
}

/** Whether a signal needs another pass over the model. */
export const secondPass = ({ cost, provide }: AnySignal): boolean => cost === 'pass' && provide !== undefined;

function passesOf({ needs }: CompiledPolicy, window: number): readonly string[] {
  const passes: string[] = [];
  if (window > 0)
    passes.push(`at the event, the weights of the last ${window === 1 ? 'query' : `${window} queries`} over the cache`);
  if (needs.some(({ cost, provide }) => cost === 'pass' && !provide))
    passes.push('attention of every layer and block also adds up its weights by column, in addition to the fused path');
  if (needs.some(isInputSignal))
    passes.push("none, but numbers of each layer's input are made as tokens pass, layer by layer");
  for (const signal of needs)
    if (secondPass(signal)) passes.push(`another pass over the model for ${signalKey(signal)}`);
  return passes.length === 0 ? ['none: attention stays on the fused path'] : passes;
}

/** Returns how many of keys and values the steps of a policy read. */
const partsRead = ({ needs }: CompiledPolicy): number =>
  new Set(needs.flatMap(({ id }) => (id === 'keys' ? 'keys' : id.startsWith('values') ? 'values' : []))).size;

/** Returns those of a policy's term of attention: each number of its states meets each query head. */
const termWork = ({ hooks }: CompiledPolicy, config: ModelConfig): number =>
  sumOf(
    hooks('attend').flatMap(({ needs }) =>
      needs
        .filter(isState)
        .flatMap(({ state }) =>
          joinedHeads(config).map(({ queryHeads, headDim }) => queryHeads * stateColumns(state, headDim)),
        ),
    ),
  );

function pieceBytes({ needs }: CompiledPolicy, config: ModelConfig, length: number): number {
  const layers = joinedHeads(config);
  return [...needs.filter(isState), ...needs.filter(isInputSignal).map(slotState)].reduce((sum, { state }) => {
    const { kind, rows } = state,
      bytes = (count: number, channels: number): number =>
        4 * count * { slot: length, position: length, unit: 1, sequence: stateColumns(state, channels) }[kind];
    if (rows === 'model') return sum + bytes(1, 1);
    return (
      sum +
      sumOf(layers.map(({ queryHeads: query, kvHeads: kv, headDim }) => bytes({ query, kv, layer: 1 }[rows], headDim)))
    );
  }, 0);
}
