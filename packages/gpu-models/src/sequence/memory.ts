import { KvError, sameSignal, signalKey } from '@kv/core';
import type { AnySignal, Cell, Compiled, Plan, Signal } from '@kv/core';
import type { Gpu, OpenScope, Scope } from '@kv/gpu';
import { embeddingsOf, SequenceMemory, watchOf } from '@kv/models';
import type { EventResult, EventTimes, Fed, FeedOptions, Model, Place } from '@kv/models';
import type { DeviceRunnable } from '../engine.ts';
import { bounded, recordOnDevice, runOnDevice, settled, writeStates, type Recorded, type Stage, type Subject } from './event.ts';
import type { Home } from './home.ts';
import { DeviceLayer } from './layer.ts';
import { providedOnDevice } from './observe.ts';
import { devicePass } from './pass.ts';
import { deviceReader, expectOffered } from './signals.ts';
import { DeviceStates } from './states.ts';

/** All that one sequence remembers, on the device. */
export class DeviceMemory extends SequenceMemory {
  layers: readonly DeviceLayer[];
  /** State of rows `model`. */
  shared: DeviceStates;
  readonly #gpu: Gpu;
  readonly #scope: OpenScope;

  /** @param model of an engine on the same device */
  constructor(gpu: Gpu, model: Model, window?: number) {
    const scope = gpu.open(), { config } = model;
    super(model, scope, window);
    [this.#gpu, this.#scope] = [gpu, scope];
    this.layers = Array.from({ length: config.layers }, () => new DeviceLayer(config, this.home));
    this.shared = new DeviceStates({ query: config.queryHeads, kv: config.kvHeads, layer: 1, model: 1 }, this.home);
  }

  get home(): Home {
    return { scope: this.#scope, ledger: this.ledger };
  }

  /** What is recorded for a while, given back together. */
  open(): OpenScope {
    return this.#gpu.open();
  }

  watch(needs: readonly AnySignal[]): void {
    expectOffered(needs);
    for (const layer of this.layers) layer.watch(watchOf(needs));
  }

  unwatch(): void {
    for (const layer of this.layers) layer.unwatch();
  }

  reader(layer: number, { commands, ops }: Pick<Scope, 'commands' | 'ops'> = this.#scope): (signal: AnySignal) => unknown {
    const { shared, text: tokens, counters, model } = this, { config, decoder } = model;
    const rope = { rotary: config.rope.rotary, angles: (positions: Uint32Array) => decoder.angles(positions, this.rotaryLength) };
    return deviceReader({ layer: this.layers[layer]!, index: layer, config, shared, tokens, rope, embeddings: embeddingsOf(model), counters, commands, ops, output: () => (decoder.prepared.layers[layer]!.finish as DeviceRunnable).weight('output') });
  }

  protected place(layer: number): Place {
    const { cache, aligned } = this.layers[layer]!;
    return { slots: cache.length, aligned, lengths: cache.counts, kept: () => cache.kept() };
  }

  async feed(ids: readonly number[], { evict, ...options }: FeedOptions): Promise<Fed> {
    const together = options.policy.hooks('compact').find((hook) => hook.together);
    if (together) throw new KvError('gpu', `sequences on a device do not move kept slots together: expected a policy without '${together.label}', or a model whose engine keeps caches on the host`);
    if (!evict) return { output: await devicePass(this, ids, options) };
    const { policy } = options, { plan, times } = evict, waiting: Recorded[] = [], read: EventResult[] = [];
    return this.#gpu.scope(async (scope) => {
      const output = await devicePass(this, ids, { ...options, afterLayer: async (l) => {
        if (bounded(policy)) await this.#gpu.scope((own) => { waiting.push(recordOnDevice(policy, this.#subject(l, own), plan, this.#stage(own, times), scope.commands)); });
        else read.push(await this.event(policy, [l], plan, times));
      } });
      try {
        const event = bounded(policy) ? await settled(scope, waiting, times) : { kept: read.flatMap(({ kept }) => kept), budgets: read.flatMap(({ budgets }) => budgets) };
        return { output, event };
      } catch (error) {
        output.release();
        throw error;
      }
    });
  }

  async afterStep(policy: Compiled): Promise<void> {
    const hooks = policy.hooks('step');
    if (hooks.length === 0) return;
    await this.#gpu.scope((scope) => {
      for (const hook of hooks) {
        const layers = hook.reach === 'model' ? [0] : [...this.layers.keys()];
        const states = hook.run(layers.map((l) => this.#cell(l, hook, scope)));
        for (const [i, state] of states.entries()) writeStates(hook.needs, state, this.layers[layers[i]!]!.states, this.shared);
      }
    });
  }

  event(policy: Compiled, layers: readonly number[], plan: Plan, times: EventTimes, onPass: () => void = () => {}): Promise<EventResult> {
    return this.#gpu.scope(async (scope) => {
      const given = await providedOnDevice(this, policy, layers, scope.commands, onPass);
      return runOnDevice(policy, layers.map((l, i) => this.#subject(l, scope, given[i])), plan, this.#stage(scope, times));
    });
  }

  get cuttable(): boolean {
    return this.shared.empty && this.layers.every(({ plain, cache }) => plain && cache.counts.every((n) => n === this.length));
  }

  fork(upTo: number = this.length): DeviceMemory {
    const { layers, shared, text, promptLength, rotaryLength, decoded, mostSlots, budget } = this, copy = new DeviceMemory(this.#gpu, this.model, this.window);
    for (const layer of copy.layers) layer.destroy();
    copy.layers = layers.map((layer) => layer.fork(copy.home, upTo < this.length ? upTo : undefined));
    copy.shared = shared.fork(copy.home);
    return Object.assign(copy, { text: text.fork(upTo), promptLength: Math.min(promptLength, upTo), rotaryLength, decoded, mostSlots, budget });
  }

  destroy(): void {
    for (const layer of this.layers) layer.destroy();
    this.shared.destroy();
    this.#scope.end();
  }

  #subject(l: number, scope: Scope, given?: ReadonlyMap<string, unknown>): Subject {
    const read = this.reader(l, scope);
    return { at: this.at(l), layer: this.layers[l]!, read: (signal) => given?.get(signalKey(signal)) ?? read(signal) };
  }

  #stage(scope: Scope, times: EventTimes): Stage {
    return { scope, shared: this.shared, times };
  }

  /** A layer as a step hook sees it. */
  #cell(layer: number, { label, needs }: { readonly label: string; readonly needs: readonly AnySignal[] }, scope: Scope): Cell {
    const read = this.reader(layer, scope);
    return {
      at: this.at(layer), ops: scope.ops, draft: { budgets: scope.ops.from({ data: [0], shape: [1, 1] }), state: new Map(), checks: [] },
      read<V>(signal: Signal<string, V>): V {
        if (!needs.some((s) => sameSignal(s, signal))) throw new KvError(label, `reads the signal ${signalKey(signal)}, which it does not declare`);
        return read(signal) as V;
      },
    };
  }
}
