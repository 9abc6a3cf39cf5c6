import { runStepHook, signalKey } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal } from '@kv/core';
import { headsOf } from '@kv/checkpoints';
import type { OpenScope, Recordable, Scope } from '@kv/gpu';
import {
  InputRecording,
  termOf,
  joinEvents,
  keptLayers,
  observationPlan,
  readersOf,
  readsLayerInput,
  sequenceContext,
  SlotCounts,
  slotModel,
} from '@kv/engine';
import type {
  ActivePolicy,
  BatchGroup,
  CacheSnapshot,
  Decoder,
  EventRequest,
  EventResult,
  EventTimes,
  FeedOptions,
  FeedResult,
  KeptLayers,
  LayerEviction,
  LayerSlots,
  MemoryModel,
  MemoryOptions,
  SequenceCaches,
  SequenceContext,
  SlotReader,
  SpeculativeSteps,
  TokenProgress,
} from '@kv/engine';
import type { DeviceRunnable } from '../engine.ts';
import { speculativeSteps } from './speculative-steps.ts';
import {
  isBounded,
  decide,
  recordOnDevice,
  runOnDevice,
  readEvents,
  writeStates,
  type RecordedLayer,
  type EventContext,
  type EventSubject,
} from './event.ts';
import { DeviceCache } from './cache.ts';
import { DecodedParts } from './decoded-parts.ts';
import type { DeviceState } from './device-state.ts';
import type { DeviceScope } from './device-scope.ts';
import { DeviceLayer } from './layer.ts';
import { DeviceLayerStates } from './layer-states.ts';
import { runDeviceProviders } from './providers.ts';
import { anglesOf } from './token-chunk.ts';
import { devicePass } from './pass.ts';
import { deviceReader, expectOffered, settleSums, type LayerOutput } from './signals.ts';
import { snapshot } from './snapshot.ts';
import { DeviceStates } from './states.ts';
import { DeviceBatchSlot, groupOf } from './batch.ts';

/**
 * The caches of one sequence, on the device.
 *
 * More than 15 members: `SequenceCaches`, and what passes and events read (`DeviceState`).
 */
export class DeviceCaches implements SequenceCaches, DeviceState {
  readonly context: SequenceContext;
  readonly slots: SlotCounts;
  readonly decoded: DecodedParts;
  readonly kept: KeptLayers;
  layers: readonly DeviceLayer[];
  states: DeviceLayerStates;
  /** State of rows `model`. */
  shared: DeviceStates;
  inputs = new InputRecording();
  readonly decoder: Decoder<DeviceRunnable>;
  readonly speculation: SpeculativeSteps = speculativeSteps(this);
  readonly #gpu: Recordable;
  readonly #scope: OpenScope;
  readonly #snapshots: number;

  /**
   * @param decoder prepared on the same device
   * @param progress of the sequence that is copied @defaultValue that of an empty sequence
   */
  constructor(
    gpu: Recordable,
    decoder: Decoder<DeviceRunnable>,
    model: MemoryModel,
    options?: Pick<MemoryOptions, 'window' | 'signal' | 'form' | 'snapshots'>,
    progress?: TokenProgress,
  ) {
    const scope = gpu.open(),
      { config } = model;
    this.context = sequenceContext(model, scope, options, progress);
    [this.decoder, this.#gpu, this.#scope] = [decoder, gpu, scope];
    this.decoded = new DecodedParts(this.device);
    this.kept = keptLayers(config);
    this.#snapshots = options?.snapshots ?? 0;
    this.layers = this.kept.slots.map((l, at) => {
      const heads = headsOf(slotModel(config), at),
        cache = new DeviceCache(heads.kvHeads, heads.headDim, this.device, this.context.form),
        { sinks } = decoder.layers[l];
      return new DeviceLayer(heads, this.device, cache, { sinks, readers: readersOf(this.kept, at) });
    });
    this.states = new DeviceLayerStates(this.kept.states, this.#snapshots, this.device);
    this.shared = new DeviceStates({ query: 0, kv: 0, layer: 0, model: 1, channels: 1 }, this.device); // of rows `model` alone
    this.slots = new SlotCounts(this.context, {
      of: (layer) => slotsOf(this.layers[layer]),
      dropFirst: (layer, count) => this.#dropFirst(layer, count),
      plain: () => this.shared.empty && this.layers.every(({ plain }) => plain),
      sinks: (layer) => decoder.layers[this.kept.slots[layer]].sinks,
    });
  }

  get batchGroup(): BatchGroup {
    return groupOf(this.decoder);
  }

  get device(): DeviceScope {
    return { scope: this.#scope, ledger: this.context.ledger };
  }

  /** Opens a scope: what is recorded in it is freed together. */
  open(): OpenScope {
    return this.#gpu.open();
  }

  observe(signals: readonly AnySignal[]): void {
    expectOffered(signals);
    for (const layer of this.layers) layer.observe(observationPlan(signals));
    this.inputs.begin(signals, this.layers, this.context.progress.length === 0);
  }

  prepare({ policy }: ActivePolicy, more: number): Promise<void> {
    for (const layer of this.layers) layer.expectRoom(more);
    return this.inputs.prepare(policy, this.layers, this.context);
  }

  stopObserving(): void {
    for (const layer of this.layers) layer.stopObserving();
    this.inputs.clear();
  }

  reader(
    layer: number,
    { commands, ops }: Pick<Scope, 'commands' | 'ops'> = this.#scope,
    of?: SlotReader,
  ): (signal: AnySignal) => unknown {
    const { shared, decoded, decoder, context } = this,
      { counters, progress, model } = context,
      { embeddings } = model,
      config = slotModel(model.config),
      at = this.kept.slots[layer];
    decoded.clear();
    const rope = {
      rotary: config.ropes[layer].rotary,
      angles: (positions: Uint32Array) => decoder.angles(at, progress.rotations(positions), progress.rotaryLength),
    };
    return deviceReader({
      layer: this.layers[layer],
      index: layer,
      config,
      shared,
      decoded,
      tokens: progress.text,
      rope,
      shift: progress.shift,
      embeddings,
      counters,
      commands,
      ops,
      reader: of,
      outputs: () => outputsOf(this, layer, of),
    });
  }

  async pass(ids: readonly number[], options: Omit<FeedOptions, 'evict'>, evict?: LayerEviction): Promise<FeedResult> {
    const { batch, phase } = options;
    const { policy: acting } = options.active,
      alone =
        this.inputs.signals.length > 0 ||
        readsLayerInput(acting) ||
        this.layers.some((layer) => termOf(options.active, layer));
    if (!evict && !alone && phase === 'decode' && ids.length === 1 && batch instanceof DeviceBatchSlot)
      return { output: await batch.pass(this, ids[0], options) };
    // the others need not wait for a pass that is not batched
    batch?.leave();
    if (!evict) return { output: await devicePass(this, ids, options) };
    const { active } = options,
      { policy } = active,
      { plan, times } = evict,
      // the host moves slots that have levels, whatever the policy
      bounded = isBounded(policy, plan) && !this.layers.some(({ cache }) => cache.form === 'records'),
      // a layer whose slots others read comes after them
      waiting = new Map<number, RecordedLayer>(),
      read = new Map<number, EventResult>(),
      inOrder = <T>(of: ReadonlyMap<number, T>): T[] => [...of].sort(([a], [b]) => a - b).map(([, result]) => result);
    return this.#gpu.scope(async (scope) => {
      const output = await devicePass(this, ids, {
        ...options,
        eventFollows: true,
        afterLayer: async (l) => {
          if (bounded) {
            if (policy.hooks('compact').length > 0) this.context.progress.noteAltered(0);
            await this.#timed(() =>
              this.#gpu.scope(async (own) => {
                const [given] = await runDeviceProviders(this, { policy, layers: [l] }, own.commands);
                const subject = this.#subject(active, l, own, given),
                  stage = this.#stage(own, times);
                waiting.set(
                  l,
                  recordOnDevice(policy, subject, decide(active, [subject], plan, stage), stage, scope.commands),
                );
              }),
            );
          } else read.set(l, await evict.run([l]));
          if (evict.freeObservations) this.layers[l].stopObserving();
        },
      });
      try {
        const event = bounded ? await readEvents(scope, inOrder(waiting), times) : joinEvents(inOrder(read));
        return { output, event };
      } catch (error) {
        output.release();
        throw error;
      }
    });
  }

  async runStepHooks(active: ActivePolicy): Promise<void> {
    const hooks = active.policy.hooks('step');
    await this.#gpu.scope((scope) => {
      for (const hook of hooks) {
        const layers = hook.reach === 'model' ? [0] : [...this.layers.keys()];
        const states = runStepHook(
          hook,
          layers.map((l) => ({ at: this.slots.layerContext(l, active), ops: scope.ops, read: this.reader(l, scope) })),
        );
        for (const [i, state] of states.entries())
          writeStates(hook.needs, state, this.layers[layers[i]].states, this.shared);
        this.decoded.clear();
      }
    });
  }

  runEvent(request: EventRequest): Promise<EventResult> {
    const { active, layers, plan, times } = request;
    return this.#timed(() =>
      this.#gpu.scope(async (scope) => {
        const given = await runDeviceProviders(this, { policy: active.policy, ...request }, scope.commands);
        return runOnDevice(
          active,
          layers.map((l, i) => this.#subject(active, l, scope, given[i])),
          plan,
          this.#stage(scope, times),
        );
      }),
    );
  }

  move(next: number): void {
    const scope = this.open(),
      { commands } = scope,
      { layers, kept, context } = this,
      config = slotModel(context.model.config);
    try {
      const used = new Set(Array.from({ length: next }, (_, i) => i));
      for (const [index, layer] of layers.entries()) {
        settleSums({ layer, config, index, commands }); // what waits saw the keys as they were
        for (const list of [...layer.cache.rotations(), layer.ring?.rotations() ?? []])
          for (const p of list) used.add(p);
      }
      const positions = Uint32Array.from(used),
        angles = anglesOf([[this, positions]], commands),
        row = new Map(Array.from(positions, (p, i) => [p, i]));
      for (const [l, layer] of layers.entries()) layer.rebase(next, { commands, angles: angles(kept.slots[l]), row });
    } finally {
      scope.end();
    }
  }

  snapshot(): Promise<CacheSnapshot> {
    return snapshot(this);
  }

  restore({ layers, carried = [], states }: CacheSnapshot): void {
    for (const [l, layer] of layers.entries()) this.layers[l].restore(layer);
    this.states.restore(carried);
    for (const state of states) this.shared.restore(state);
  }

  empty(progress?: TokenProgress): DeviceCaches {
    const { decoder, context } = this;
    return new DeviceCaches(this.#gpu, decoder, context.model, { ...context, snapshots: this.#snapshots }, progress);
  }

  fork(upTo: number = this.context.progress.length): DeviceCaches {
    const { layers, states, shared } = this,
      { progress } = this.context,
      copy = this.empty(progress.fork(upTo));
    for (const layer of copy.layers) layer.destroy();
    copy.layers = layers.map((layer) =>
      layer.fork(copy.device, upTo < progress.length ? layer.cache.before(upTo)[0] : undefined),
    );
    copy.states.destroy();
    copy.states = states.fork(copy.device, upTo, progress.length);
    copy.shared = shared.fork(copy.device);
    copy.inputs = this.inputs.fork();
    return copy;
  }

  free(): void {
    for (const layer of this.layers) layer.destroy();
    this.states.destroy();
    this.shared.destroy();
    this.decoded.clear();
    this.#scope.end();
  }

  #dropFirst(index: number, first: readonly number[]): void {
    const layer = this.layers[index],
      slots = first.map((from, g) => range(from, layer.cache.counts[g] - from)),
      counts = slots.map(({ length }) => length),
      most = Math.max(1, ...counts),
      kept = new Uint32Array(slots.length * most);
    for (const [g, list] of slots.entries()) kept.set(list, g * most);
    const scope = this.open(),
      { commands } = scope;
    try {
      settleSums({ layer, config: slotModel(this.context.model.config), index, commands }); // what waits saw these slots
      layer.keep(
        {
          kept: commands.upload(kept, [slots.length, most]),
          counts: commands.upload(Uint32Array.from(counts), [slots.length]),
        },
        counts,
        { slots },
      );
      layer.confirm(slots);
    } finally {
      scope.end();
    }
  }

  #subject(active: ActivePolicy, l: number, scope: Scope, given?: ReadonlyMap<string, unknown>): EventSubject {
    const read = this.reader(l, scope),
      layer = this.layers[l];
    settleSums({ layer, config: slotModel(this.context.model.config), index: l, commands: scope.commands }); // an event may change keys
    return {
      at: this.slots.layerContext(l, active),
      layer,
      read: (signal) => given?.get(signalKey(signal)) ?? read(signal),
    };
  }

  /** Labels what an event records, on a device with timestamps. */
  async #timed<T>(run: () => Promise<T>): Promise<T> {
    const before = this.#gpu.label('event');
    try {
      return await run();
    } finally {
      this.#gpu.label(before);
    }
  }

  #stage(scope: Scope, times: EventTimes): EventContext {
    return {
      scope,
      shared: this.shared,
      decoded: this.decoded,
      times,
      change: (run) => this.context.guard.change('an event', run),
    };
  }
}

/** Returns the output products of the layers that read the slots of one, or of one of these. */
const outputsOf = ({ kept, decoder }: DeviceState, layer: number, reader?: SlotReader): readonly LayerOutput[] =>
  (reader ? [reader.layer] : kept.readers[layer]).map((at) => ({
    matrix: decoder.layers[at].finish.weight('output'),
    ...(!reader && kept.all[at].reader && { reader: kept.all[at].reader }),
  }));

/** Returns the slots of a layer. */
const slotsOf = ({ cache, aligned, biases }: DeviceLayer): LayerSlots => ({
  slots: cache.length,
  aligned,
  biased: biases !== undefined,
  demoted: cache.form === 'records',
  lengths: cache.counts,
  before: (position) => cache.before(position),
  kept: () => cache.kept(),
});
