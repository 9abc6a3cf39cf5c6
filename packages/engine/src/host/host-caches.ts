import { KvError } from '@kv/core';
import { limitOperations } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal, Backend } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { Heads } from '@kv/checkpoints';
import { layerAttention } from '../attention/layer-attention.ts';
import type { Store } from '../cache/storage.ts';
import { rotator } from '../cache/rotate.ts';
import { joinHeads, readersOf } from '../decoder/joined-heads.ts';
import { joinedHeads, keptLayers, slotModel, type KeptLayers, type SlotReader } from '../decoder/keeps.ts';
import { greedy } from '../sampling/greedy.ts';
import { joinEvents } from '../memory/active-policy.ts';
import type { ActivePolicy, EventResult } from '../memory/active-policy.ts';
import type { EventRequest, LayerEviction, ObserverAccess, SequenceCaches } from '../memory/caches.ts';
import { sequenceContext } from '../memory/context.ts';
import type { SequenceContext } from '../memory/context.ts';
import type { AttentionCounters, BatchGroup, FeedOptions, FeedResult, Output } from '../memory/feed.ts';
import type { TokenProgress } from '../memory/progress.ts';
import type { MemoryModel, MemoryOptions } from '../memory/model-parts.ts';
import { InputRecording } from '../memory/input-recording.ts';
import { SlotCounts } from '../memory/slot-counts.ts';
import type { LayerSlots } from '../memory/slot-counts.ts';
import type { CacheSnapshot } from '../memory/snapshot.ts';
import type { Observer } from '../memory/observer.ts';
import { observationPlan } from '../memory/observation-plan.ts';
import type { HostDecoder } from './decoder.ts';
import { keptPositions, numbersOf, runHostEvent } from './event.ts';
import { DecodedLayer } from './decoded-layer.ts';
import { HiddenNumbers } from './hidden.ts';
import type { HostState, SignalOptions } from './host-state.ts';
import { LayerMemory } from './layer.ts';
import { LayerStates } from './layer-states.ts';
import { runHostProviders } from './observe.ts';
import { pass } from './pass.ts';
import type { PassOptions } from './pass.ts';
import { commonOf, reader } from './provide.ts';
import type { EventSignals } from './provide.ts';
import { beforeEvent, showViews, type ViewsSeen } from './show-observer.ts';
import { runStepHooks } from './step-hooks.ts';
import { StateStore } from './store.ts';
import type { ViewSelection } from './visibility.ts';

/** Feeds tokens through the layers of caches on the host. */
export interface TokenPasses {
  /** The caches' storage allocator. @defaultValue arrays of their own */
  readonly store?: Store;
  /** Initial counters of these passes. */
  readonly counters?: Partial<AttentionCounters>;
  readonly group?: BatchGroup | undefined;
  /** Feeds tokens through every layer, and returns the logits of the last rows. */
  pass(caches: HostState, ids: readonly number[], options: PassOptions): Promise<Float32Array[]>;
}

interface HostCachesOptions extends Pick<MemoryOptions, 'window' | 'signal' | 'mostOperations' | 'form' | 'snapshots'> {
  /** @defaultValue layer by layer, through the decoder: `layerPasses` */
  readonly passes?: TokenPasses;
}

/** Feeds tokens layer by layer through the caches' decoder. */
export const layerPasses: TokenPasses = { pass };

/**
 * The caches of one sequence, on the host.
 *
 * More than 15 members: `SequenceCaches`, and what passes and events read (`HostState`).
 */
export class HostCaches implements SequenceCaches, HostState {
  readonly context: SequenceContext;
  readonly slots: SlotCounts;
  readonly decoder: HostDecoder;
  readonly #passes: TokenPasses;
  readonly #snapshots: number;
  readonly kept: KeptLayers;
  /** Heads of its layers, as policies see them. */
  readonly #heads: readonly Heads[];
  layers: readonly LayerMemory[];
  states: LayerStates;
  /** State of rows `model`. */
  shared: StateStore;
  /** What providers compute from hidden states, if one does. */
  hidden: HiddenNumbers | undefined;
  inputs = new InputRecording();
  readonly observers: ObserverAccess = {
    show: (observer) => {
      this.#observer = observer;
    },
    total: (id) => this.#total(id),
  };
  #observer: Observer | undefined;
  readonly #decoded: DecodedLayer;
  /** Signals shared by the layers of the current block, if events follow its layers. */
  #common: EventSignals | undefined;

  /** @param progress of the sequence that is copied @defaultValue that of an empty sequence */
  constructor(
    decoder: HostDecoder,
    model: MemoryModel,
    backend: Backend,
    { passes = layerPasses, mostOperations, snapshots = 0, ...options }: HostCachesOptions = {},
    progress?: TokenProgress,
  ) {
    const { config } = model,
      { store, counters } = passes;
    this.context = sequenceContext(
      model,
      mostOperations === undefined ? backend : limitOperations(backend, mostOperations),
      options,
      progress,
    );
    const { ledger, form } = this.context;
    Object.assign(this.context.counters, counters);
    [this.decoder, this.#passes, this.#decoded] = [decoder, passes, new DecodedLayer(ledger)];
    this.kept = keptLayers(config);
    this.#snapshots = snapshots;
    this.#heads = joinedHeads(config);
    this.layers = this.#heads.map((heads) => new LayerMemory(heads, ledger, { store, form }));
    this.states = new LayerStates(this.kept.states, snapshots, ledger, store);
    this.shared = new StateStore({ queryHeads: config.queryHeads, kvHeads: 1, headDim: 1 }, ledger, store); // of rows `model`
    this.slots = new SlotCounts(this.context, {
      of: (layer) => slotsOf(this.layers[layer]),
      dropFirst: (layer, count) => dropFirst(this.layers[layer], count),
      plain: () => this.shared.empty && !this.hidden && this.layers.every(({ plain }) => plain),
      sinks: (layer) => this.decoder.layers[this.kept.slots[layer]].sinks,
    });
  }

  observe(signals: readonly AnySignal[]): void {
    const {
      model: { config },
      ledger,
      progress,
    } = this.context;
    for (const [l, layer] of this.layers.entries()) layer.observe(observationPlan(signals), this.#heads[l], ledger);
    this.inputs.begin(signals, this.layers, progress.length === 0);
    if (signals.some((signal) => signal.hidden))
      this.hidden ??= new HiddenNumbers(progress.length, config.hidden, ledger);
  }

  stopObserving(): void {
    for (const layer of this.layers) layer.stopObserving();
    this.inputs.clear();
    this.hidden?.destroy();
    this.hidden = undefined;
  }

  reader(
    layer: number,
    { provided = new Map(), common, reader: one }: SignalOptions = {},
  ): (signal: AnySignal) => unknown {
    const { shared, decoder, context } = this,
      { progress, counters, backend, model } = context,
      { embeddings } = model,
      config = slotModel(model.config),
      at = one?.layer ?? this.kept.slots[layer],
      readers = one ? undefined : readersOf(this.kept, layer);
    return reader({
      memory: this.layers[layer],
      shared,
      tokens: progress.text,
      ops: backend.ops,
      counters,
      provided,
      ...(common && { common }),
      decoded: this.#decoded,
      attention: layerAttention(decoder, at),
      rowEngine: decoder.rowEngine,
      queryHeads: this.#heads[layer].queryHeads,
      embeddings,
      heads: one?.rows,
      outputWeight: () =>
        readers
          ? joinHeads(
              readers.map((reader) => decoder.outputWeight(reader.layer)),
              readers,
              config.hidden,
              this.layers[layer].cache.headDim,
            )
          : decoder.outputWeight(at),
      rope: {
        rotary: config.ropes[layer].rotary,
        angles: (p) => decoder.angles(at, progress.rotations(p), progress.rotaryLength),
      },
      shift: progress.shift,
    });
  }

  async readers(policy: CompiledPolicy): Promise<readonly ((signal: AnySignal) => unknown)[]> {
    const given = await runHostProviders(this, { policy, layers: [...this.layers.keys()] });
    return given.map((provided, layer) => this.reader(layer, { provided }));
  }

  move(next: number): void {
    const { decoder, layers, kept, context } = this,
      { rotaryLength } = context.progress;
    for (const [l, layer] of layers.entries()) {
      const { cache, ring } = layer;
      layer.clearIndexes();
      const before = cache.rotations ?? cache.positions,
        used = new Set<number>(range(0, next));
      for (const [g, n] of cache.lengths.entries())
        for (const p of before.subarray(g * cache.capacity, g * cache.capacity + n)) used.add(p);
      for (const p of ring?.rotations() ?? []) used.add(p);
      const rotate = rotator((positions) => decoder.angles(kept.slots[l], positions, rotaryLength), used);
      cache.rebase(next, rotate);
      ring?.rebase(cache, next, rotate);
    }
  }

  async snapshot(): Promise<CacheSnapshot> {
    return {
      layers: this.layers.map((layer, l) => layer.saved(this.#heads[l])),
      carried: this.states.saved(),
      states: this.shared.saved(),
    };
  }

  restore({ layers, carried = [], states }: CacheSnapshot): void {
    const { ledger } = this.context;
    for (const [l, layer] of layers.entries()) this.layers[l].restore(layer, this.#heads[l], ledger);
    this.states.restore(carried);
    for (const state of states) this.shared.restore(state);
  }

  get batchGroup(): BatchGroup | undefined {
    return this.#passes.group;
  }

  prepare({ policy }: ActivePolicy): Promise<void> {
    return this.inputs.prepare(policy, this.layers, this.context);
  }

  async pass(ids: readonly number[], options: Omit<FeedOptions, 'evict'>, evict?: LayerEviction): Promise<FeedResult> {
    const events = new Map<number, EventResult>(),
      seen: ViewsSeen = new Map(),
      { backend } = this.context,
      { batch } = options;
    if (evict && backend.lasting) this.#common = commonOf(backend);
    const logits = await this.#passes
      .pass(this, ids, {
        ...options,
        ...(this.#observer &&
          options.phase === 'decode' && {
            seen: (l: number, visible: readonly ViewSelection[], reader?: SlotReader) => {
              seen.set(l, [...(seen.get(l) ?? []), { visible, reader }]);
            },
          }),
        ...(evict && {
          afterLayers: async (layers: readonly number[]) => {
            events.set(layers[0], await evict.run(layers));
            if (evict.freeObservations) for (const l of layers) this.layers[l].stopObserving();
          },
        }),
      })
      .finally(() => {
        this.#common = undefined;
        this.#decoded.clear();
      });
    batch?.leave();
    if (this.#observer && seen.size > 0) await showViews(this.#observer, this, seen);
    const output = hostOutput(logits);
    // a layer whose slots others read comes after them
    const inOrder = [...events].sort(([a], [b]) => a - b).map(([, event]) => event);
    return evict ? { output, event: joinEvents(inOrder) } : { output };
  }

  runStepHooks(active: ActivePolicy): Promise<void> {
    return runStepHooks(this, active).finally(() => this.#decoded.clear());
  }

  async runEvent(request: EventRequest): Promise<EventResult> {
    const { active, layers, plan, times } = request,
      { shared, slots, context } = this,
      { backend, guard } = context,
      given = await runHostProviders(this, { policy: active.policy, ...request }),
      common = this.#common ?? commonOf(backend);
    const subjects = layers.map((l, i) => ({
      at: slots.layerContext(l, active),
      memory: this.layers[l],
      read: this.reader(l, { provided: given[i], common }),
    }));
    const show = this.#observer && (await beforeEvent(this.#observer, this, layers));
    const result = await runHostEvent(active, subjects, plan, {
      backend,
      shared,
      common,
      room: 0,
      times,
      change: (run) => guard.change('an event', run),
    }).finally(() => this.#decoded.clear());
    show?.(result.kept.map(numbersOf));
    return result;
  }

  empty(progress?: TokenProgress): HostCaches {
    const { decoder, context } = this,
      { model, backend } = context;
    return new HostCaches(
      decoder,
      model,
      backend,
      { ...context, passes: this.#passes, snapshots: this.#snapshots },
      progress,
    );
  }

  fork(upTo: number = this.context.progress.length): HostCaches {
    const { layers, states, shared, context } = this,
      copy = this.empty(context.progress.fork(upTo)),
      { ledger } = copy.context;
    copy.layers = layers.map((layer, l) => layer.fork(this.#heads[l], ledger, upTo));
    copy.states.destroy();
    copy.states = states.fork(ledger, upTo, context.progress.length);
    copy.shared = shared.fork(ledger);
    copy.inputs = this.inputs.fork();
    copy.hidden = this.hidden?.fork(ledger);
    return copy;
  }

  free(): void {
    for (const layer of this.layers) layer.destroy();
    this.states.destroy();
    this.shared.destroy();
    this.hidden?.destroy();
  }

  #total(id: string): number | undefined {
    const all = this.layers.flatMap(({ states }) => states.saved().filter((state) => state.id === id));
    return all.length === 0 ? undefined : all.reduce((sum, { data }) => sum + data.reduce((a, b) => a + b, 0), 0);
  }
}

/** Returns the slots of a layer. */
function slotsOf(layer: LayerMemory): LayerSlots {
  const { cache, aligned } = layer;
  return {
    slots: cache.length,
    aligned,
    biased: cache.biases !== undefined,
    demoted: cache.records !== undefined,
    lengths: cache.lengths,
    before: (position) => cache.before(position),
    kept: () => numbersOf(keptPositions(layer)),
  };
}

/** Drops the first slots of each head of a layer. */
function dropFirst(layer: LayerMemory, count: readonly number[]): void {
  const { lengths } = layer.cache;
  layer.keep(
    count.map((first, g) => range(first, lengths[g] - first)),
    0,
  );
}

/** Returns logits on the host as an output. */
const hostOutput = (logits: readonly Float32Array[]): Output => ({
  logits,
  read: async () => logits,
  next: async (draw) => {
    const row = logits.at(-1);
    if (!row) throw new KvError('next', 'expected logits of the last token fed, got none: rows was 0');
    return draw ? draw.pick(row) : greedy(row);
  },
  release: () => {},
});
