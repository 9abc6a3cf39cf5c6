import { runStepHook, signalKey } from '@kv/core/engine';
import { range } from '@kv/core/shared';
import type { AnySignal, BudgetPlan } from '@kv/core';
import type { OpenScope, Recordable, Scope } from '@kv/gpu';
import { joinEvents, SequenceMemory, watchOf } from '@kv/engine';
import type {
  EventResult,
  MemoryOptions,
  SpeculativeSteps,
  BatchGroup,
  ActivePolicy,
  Decoder,
  EventTimes,
  FeedResult,
  FeedOptions,
  MemoryModel,
  LayerSlots,
  Snapshot,
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
import type { DeviceState } from './device-state.ts';
import type { DeviceScope } from './device-scope.ts';
import { DeviceLayer } from './layer.ts';
import { runProviders } from './providers.ts';
import { anglesOf } from './token-chunk.ts';
import { devicePass } from './pass.ts';
import { deviceReader, expectOffered, settleSums } from './signals.ts';
import { snapshot } from './snapshot.ts';
import { DeviceStates } from './states.ts';
import { DeviceBatchSlot, groupOf } from './batch.ts';

/** The memory of one sequence, on the device. */
export class DeviceMemory extends SequenceMemory implements DeviceState {
  layers: readonly DeviceLayer[];
  /** State of rows `model`. */
  shared: DeviceStates;
  readonly decoder: Decoder<DeviceRunnable>;
  readonly ahead: SpeculativeSteps = speculativeSteps(this);
  readonly #gpu: Recordable;
  readonly #scope: OpenScope;

  /** @param decoder prepared on the same device */
  constructor(
    gpu: Recordable,
    decoder: Decoder<DeviceRunnable>,
    model: MemoryModel,
    options?: Pick<MemoryOptions, 'window' | 'signal'>,
  ) {
    const scope = gpu.open(),
      { config } = model;
    super(model, scope, options);
    [this.decoder, this.#gpu, this.#scope] = [decoder, gpu, scope];
    this.layers = Array.from({ length: config.layers }, () => new DeviceLayer(config, this.device));
    this.shared = new DeviceStates({ query: config.queryHeads, kv: config.kvHeads, layer: 1, model: 1 }, this.device);
  }

  get group(): BatchGroup {
    return groupOf(this.decoder);
  }

  get device(): DeviceScope {
    return { scope: this.#scope, ledger: this.ledger };
  }

  /** Opens a scope: what is recorded in it is freed together. */
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

  reader(
    layer: number,
    { commands, ops }: Pick<Scope, 'commands' | 'ops'> = this.#scope,
  ): (signal: AnySignal) => unknown {
    const { shared, text: tokens, counters, decoder } = this,
      { config, embeddings } = this.model;
    const rope = {
      rotary: config.ropes[layer].rotary,
      angles: (positions: Uint32Array) => decoder.angles(layer, this.rotations(positions), this.rotaryLength),
    };
    return deviceReader({
      layer: this.layers[layer],
      index: layer,
      config,
      shared,
      tokens,
      rope,
      embeddings,
      counters,
      commands,
      ops,
      output: () => decoder.layers[layer].finish.weight('output'),
    });
  }

  protected place(layer: number): LayerSlots {
    const { cache, aligned } = this.layers[layer];
    return {
      slots: cache.length,
      aligned,
      lengths: cache.counts,
      before: (position) => cache.before(position),
      kept: () => cache.kept(),
    };
  }

  protected dropFirst(index: number, first: readonly number[]): void {
    const layer = this.layers[index],
      slots = first.map((gone, g) => range(gone, layer.cache.counts[g] - gone)),
      counts = slots.map(({ length }) => length),
      most = Math.max(1, ...counts),
      kept = new Uint32Array(slots.length * most);
    for (const [g, list] of slots.entries()) kept.set(list, g * most);
    const scope = this.open(),
      { commands } = scope;
    try {
      settleSums({ layer, config: this.model.config, index, commands }); // what waits saw these slots
      layer.keep(
        {
          kept: commands.upload(kept, [slots.length, most]),
          counts: commands.upload(Uint32Array.from(counts), [slots.length]),
        },
        counts,
      );
      layer.confirm(slots);
    } finally {
      scope.end();
    }
  }

  protected async pass(ids: readonly number[], { evict, ...options }: FeedOptions): Promise<FeedResult> {
    const { place, phase } = options;
    if (!evict && phase === 'decode' && ids.length === 1 && place instanceof DeviceBatchSlot)
      return { output: await place.pass(this, ids[0], options) };
    // the others need not wait for a pass that is not batched
    place?.leave();
    if (!evict) return { output: await devicePass(this, ids, options) };
    const { course } = options,
      { policy } = course,
      { plan, times } = evict,
      waiting: RecordedLayer[] = [],
      read: EventResult[] = [];
    return this.#gpu.scope(async (scope) => {
      const output = await devicePass(this, ids, {
        ...options,
        eventFollows: true,
        afterLayer: async (l) => {
          if (isBounded(policy, plan))
            await this.#timed(() =>
              this.#gpu.scope(async (own) => {
                const [given] = await runProviders(this, policy, [l], own.commands, () => {});
                const subject = this.#subject(course, l, own, given),
                  stage = this.#stage(own, times);
                waiting.push(
                  recordOnDevice(policy, subject, decide(policy, [subject], plan, stage), stage, scope.commands),
                );
              }),
            );
          else read.push(await this.event(course, [l], plan, times, () => {}));
        },
      });
      try {
        const event = isBounded(policy, plan) ? await readEvents(scope, waiting, times) : joinEvents(read);
        return { output, event };
      } catch (error) {
        output.release();
        throw error;
      }
    });
  }

  protected async runStepHooks(course: ActivePolicy): Promise<void> {
    const hooks = course.policy.hooks('step');
    await this.#gpu.scope((scope) => {
      for (const hook of hooks) {
        const layers = hook.reach === 'model' ? [0] : [...this.layers.keys()];
        const states = runStepHook(
          hook,
          layers.map((l) => ({ at: this.at(l, course), ops: scope.ops, read: this.reader(l, scope) })),
        );
        for (const [i, state] of states.entries())
          writeStates(hook.needs, state, this.layers[layers[i]].states, this.shared);
      }
    });
  }

  protected runEvent(
    course: ActivePolicy,
    layers: readonly number[],
    plan: BudgetPlan,
    times: EventTimes,
    onPass: () => void,
  ): Promise<EventResult> {
    return this.#timed(() =>
      this.#gpu.scope(async (scope) => {
        const given = await runProviders(this, course.policy, layers, scope.commands, onPass);
        return runOnDevice(
          course.policy,
          layers.map((l, i) => this.#subject(course, l, scope, given[i])),
          plan,
          this.#stage(scope, times),
        );
      }),
    );
  }

  protected get plain(): boolean {
    return this.shared.empty && this.layers.every(({ plain }) => plain);
  }

  protected move(next: number): void {
    const scope = this.open(),
      { commands } = scope,
      {
        model: { config },
        layers,
      } = this;
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
      for (const [l, layer] of layers.entries()) layer.rebase(next, { commands, angles: angles(l), row });
    } finally {
      scope.end();
    }
  }

  protected numbers(): Promise<Pick<Snapshot, 'layers' | 'states'>> {
    return snapshot(this);
  }

  protected take({ layers, states }: Pick<Snapshot, 'layers' | 'states'>): void {
    for (const [l, layer] of layers.entries()) this.layers[l].restore(layer);
    for (const state of states) this.shared.restore(state);
  }

  /** Returns an empty memory of the same model. */
  empty(): DeviceMemory {
    const { decoder, model, window, signal } = this;
    return new DeviceMemory(this.#gpu, decoder, model, { window, signal });
  }

  fork(upTo: number = this.length): DeviceMemory {
    const { layers, shared } = this,
      copy = this.empty();
    for (const layer of copy.layers) layer.destroy();
    copy.layers = layers.map((layer) =>
      layer.fork(copy.device, upTo < this.length ? layer.cache.before(upTo)[0] : undefined),
    );
    copy.shared = shared.fork(copy.device);
    return this.counted(copy, upTo);
  }

  protected free(): void {
    for (const layer of this.layers) layer.destroy();
    this.shared.destroy();
    this.#scope.end();
  }

  #subject(course: ActivePolicy, l: number, scope: Scope, given?: ReadonlyMap<string, unknown>): EventSubject {
    const read = this.reader(l, scope),
      layer = this.layers[l];
    settleSums({ layer, config: this.model.config, index: l, commands: scope.commands }); // an event may change keys
    return { at: this.at(l, course), layer, read: (signal) => given?.get(signalKey(signal)) ?? read(signal) };
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
    return { scope, shared: this.shared, times, change: (run) => this.change('an event', run) };
  }
}
