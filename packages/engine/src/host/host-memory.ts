import { KvError } from '@kv/core';
import { limitOperations } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal, Backend, BudgetPlan } from '@kv/core';
import { layerAttention } from '../attention/layer-attention.ts';
import type { Store } from '../cache/storage.ts';
import { turner } from '../cache/rotate.ts';
import { greedy } from '../sampling.ts';
import { joinEvents } from '../memory/active-policy.ts';
import type { ActivePolicy, EventResult, EventTimes } from '../memory/active-policy.ts';
import type {
  AttentionCounters,
  BatchGroup,
  FeedResult,
  FeedOptions,
  ObservationRequest,
  Output,
} from '../memory/memory.ts';
import type { MemoryOptions } from '../memory/runtime.ts';
import { SequenceMemory } from '../memory/sequence-memory.ts';
import type { MemoryModel, LayerSlots } from '../memory/sequence-memory.ts';
import type { Snapshot } from '../memory/snapshot.ts';
import type { Observer } from '../memory/observer.ts';
import type { HostDecoder } from './decoder.ts';
import { keptPositions, numbersOf, runSubjects } from './event.ts';
import { HiddenNumbers } from './hidden.ts';
import type { HostState } from './host-state.ts';
import { LayerMemory } from './layer.ts';
import { runProviders } from './observe.ts';
import { pass } from './pass.ts';
import type { PassOptions } from './pass.ts';
import { commonOf, reader } from './provide.ts';
import type { EventSignals } from './provide.ts';
import { runStepHooks } from './step-hooks.ts';
import { StateStore } from './store.ts';
import type { ViewSelection } from './visibility.ts';
import { watchOf } from '../memory/watch.ts';
import { beforeEvent, showViews } from './show-observer.ts';

/** Feeds tokens through the layers of memories on the host. */
export interface TokenPasses {
  /** The caches' storage allocator. @defaultValue arrays of their own */
  readonly store?: Store;
  /** Initial counters of these passes. */
  readonly counters?: Partial<AttentionCounters>;
  readonly group?: BatchGroup | undefined;
  /** Feeds tokens through every layer, and returns the logits of the last rows. */
  pass(memory: HostMemory, ids: readonly number[], options: PassOptions): Promise<Float32Array[]>;
}

interface HostMemoryOptions extends Pick<MemoryOptions, 'window' | 'signal' | 'mostOperations'> {
  /** @defaultValue layer by layer, through the decoder: `layerPasses` */
  readonly passes?: TokenPasses;
}

/** Feeds tokens layer by layer through the memory's decoder. */
export const layerPasses: TokenPasses = { pass };

/** The memory of one sequence, on the host. */
export class HostMemory extends SequenceMemory implements HostState {
  readonly decoder: HostDecoder;
  readonly #passes: TokenPasses;
  layers: readonly LayerMemory[];
  /** State of rows `model`. */
  shared: StateStore;
  /** What providers compute from hidden states, if one does. */
  hidden: HiddenNumbers | undefined;
  readonly observing: ObservationRequest = {
    show: (observer) => {
      this.#observer = observer;
    },
    total: (id) => this.#total(id),
  };
  #observer: Observer | undefined;
  /** Signals shared by the layers of the current block, if events follow its layers. */
  #common: EventSignals | undefined;

  constructor(
    decoder: HostDecoder,
    model: MemoryModel,
    backend: Backend,
    { passes = layerPasses, mostOperations, ...options }: HostMemoryOptions = {},
  ) {
    super(model, mostOperations === undefined ? backend : limitOperations(backend, mostOperations), options);
    [this.decoder, this.#passes] = [decoder, passes];
    Object.assign(this.counters, passes.counters);
    const { config } = model,
      { store } = passes;
    this.layers = Array.from({ length: config.layers }, () => new LayerMemory(config, this.ledger, { store }));
    this.shared = new StateStore(model.config, this.ledger);
  }

  watch(needs: readonly AnySignal[]): void {
    for (const layer of this.layers) layer.watch(watchOf(needs), this.model.config, this.ledger);
    if (needs.some((signal) => signal.hidden))
      this.hidden ??= new HiddenNumbers(this.length, this.model.config.hidden, this.ledger);
  }

  unwatch(): void {
    for (const layer of this.layers) layer.unwatch();
    this.hidden?.destroy();
    this.hidden = undefined;
  }

  reader(
    layer: number,
    provided: ReadonlyMap<string, unknown> = new Map(),
    common?: EventSignals,
  ): (signal: AnySignal) => unknown {
    const {
      shared,
      text: tokens,
      counters,
      backend,
      decoder,
      model: { config, embeddings },
    } = this;
    return reader({
      memory: this.layers[layer],
      shared,
      tokens,
      ops: backend.ops,
      counters,
      provided,
      ...(common && { common }),
      attention: layerAttention(config, layer),
      rowEngine: decoder.rowEngine,
      queryHeads: config.queryHeads,
      embeddings,
      outputWeight: () => decoder.outputWeight(layer),
      rope: {
        rotary: config.ropes[layer].rotary,
        angles: (p) => decoder.angles(layer, this.rotations(p), this.rotaryLength),
      },
    });
  }

  protected move(next: number): void {
    const { decoder, layers } = this;
    for (const [l, { cache, ring }] of layers.entries()) {
      const before = cache.rotations ?? cache.positions,
        used = Array.from({ length: next }, (_, i) => i);
      cache.lengths.forEach((n, g) => used.push(...before.subarray(g * cache.capacity, g * cache.capacity + n)));
      const turn = turner(
        (positions) => decoder.angles(l, positions, this.rotaryLength),
        [...used, ...(ring?.rotations() ?? [])],
      );
      cache.rebase(next, turn);
      ring?.rebase(cache, next, turn);
    }
  }

  protected async numbers(): Promise<Pick<Snapshot, 'layers' | 'states'>> {
    return { layers: this.layers.map((layer) => layer.saved(this.model.config)), states: this.shared.saved() };
  }

  protected take({ layers, states }: Pick<Snapshot, 'layers' | 'states'>): void {
    for (const [l, layer] of layers.entries()) this.layers[l].restore(layer, this.model.config, this.ledger);
    for (const state of states) this.shared.restore(state);
  }

  protected place(layer: number): LayerSlots {
    const memory = this.layers[layer],
      { cache, aligned } = memory;
    return {
      slots: cache.length,
      aligned,
      lengths: cache.lengths,
      before: (position) => cache.before(position),
      kept: () => numbersOf(keptPositions(memory)),
    };
  }

  protected dropFirst(layer: number, first: readonly number[]): void {
    const memory = this.layers[layer],
      { lengths } = memory.cache;
    memory.keep(
      first.map((gone, g) => range(gone, lengths[g] - gone)),
      0,
    );
  }

  get group(): BatchGroup | undefined {
    return this.#passes.group;
  }

  protected async pass(ids: readonly number[], { evict, place, ...options }: FeedOptions): Promise<FeedResult> {
    const events: EventResult[] = [];
    const seen = new Map<number, readonly ViewSelection[]>(),
      watched = this.#observer && options.phase === 'decode';
    if (evict && this.backend.lasting) this.#common = commonOf(this.backend);
    const logits = await this.#passes
      .pass(this, ids, {
        ...options,
        place,
        ...(watched && {
          seen: (l: number, visible: readonly ViewSelection[]) => {
            seen.set(l, visible);
          },
        }),
        ...(evict && {
          afterLayers: async (layers: readonly number[]) => {
            events.push(await this.event(options.course, layers, evict.plan, evict.times, () => {}));
            if (evict.forget) for (const l of layers) this.layers[l].unwatch();
          },
        }),
      })
      .finally(() => {
        this.#common = undefined;
      });
    place?.leave();
    if (this.#observer && seen.size > 0) await showViews(this.#observer, this, seen);
    const output: Output = {
      logits,
      read: async () => logits,
      next: async (draw) => {
        const row = logits.at(-1);
        if (!row) throw new KvError('next', 'expected logits of the last token fed, got none: rows was 0');
        return (draw?.pick ?? greedy)(row);
      },
      release: () => {},
    };
    if (!evict) return { output };
    return { output, event: joinEvents(events) };
  }

  /** Returns the first number in a row of a layer's state, if a piece keeps one. */
  stateOf(layer: number, id: string, row: number): number | undefined {
    return this.layers[layer].states.first(id, row);
  }

  protected runStepHooks(course: ActivePolicy): Promise<void> {
    return runStepHooks(this, course);
  }

  protected async runEvent(
    course: ActivePolicy,
    layers: readonly number[],
    plan: BudgetPlan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult> {
    const { backend, shared } = this,
      given = await runProviders(this, course.policy, layers, onPass),
      common = this.#common ?? commonOf(backend);
    const subjects = layers.map((l, i) => ({
      at: this.at(l, course),
      memory: this.layers[l],
      read: this.reader(l, given[i], common),
    }));
    const show = this.#observer && (await beforeEvent(this.#observer, this, layers));
    const result = await runSubjects(course.policy, subjects, plan, {
      backend,
      shared,
      common,
      room: 0,
      times,
      change: (run) => this.change('an event', run),
    });
    show?.(result.kept.map(numbersOf));
    return result;
  }

  protected get plain(): boolean {
    return this.shared.empty && !this.hidden && this.layers.every((layer) => layer.plain);
  }

  /** Returns an empty memory of the same model. */
  empty(): HostMemory {
    const { decoder, model, backend, window, signal } = this;
    return new HostMemory(decoder, model, backend, { window, signal, passes: this.#passes });
  }

  fork(upTo: number = this.length): HostMemory {
    const {
        model: { config },
        layers,
        shared,
      } = this,
      copy = this.empty();
    copy.layers = layers.map((layer) => layer.fork(config, copy.ledger, upTo));
    copy.shared = shared.fork(copy.ledger);
    copy.hidden = this.hidden?.fork(copy.ledger);
    return this.counted(copy, upTo);
  }

  protected free(): void {
    for (const layer of this.layers) layer.destroy();
    this.shared.destroy();
    this.hidden?.destroy();
  }

  #total(id: string): number | undefined {
    const all = this.layers.flatMap(({ states }) => states.saved().filter((state) => state.id === id));
    return all.length === 0 ? undefined : all.reduce((sum, { data }) => sum + data.reduce((a, b) => a + b, 0), 0);
  }
}
