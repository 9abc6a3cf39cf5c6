import type { Tensor } from '@kv/core';
import { range } from '@kv/core/shared';
import type { HeadLayout, LayerSnapshot, ObservationPlan, SlotReader } from '@kv/engine';
import { addsTo } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import type { DeviceCache } from './cache.ts';
import type { DecidedSlots, DeviceScope, SlotSelection } from './device-scope.ts';
import { DeviceRing } from './ring.ts';
import { DeviceSlotRows } from './slot-rows.ts';
import { DeviceStates } from './states.ts';
import type { Rotations } from './rotate-rows.ts';

/**
 * One layer of one sequence on the device: its cache and the observations that events read.
 *
 * More than 15 members: each changes the cache and all observations together.
 */
export class DeviceLayer {
  readonly cache: DeviceCache;
  ring?: DeviceRing;
  /** Column sums over every query so far, `[H, n]` or `[G, n]`, and over the newest block's, `[H, n]`. */
  accumulated?: DeviceSlotRows;
  block?: DeviceSlotRows;
  /** What slots add to their scores, `[G, n]`, once an event gave some. */
  biases?: DeviceSlotRows;
  /**
   * The last decoded query, `[H * d]`, and its log-sum-exp `[H]`, while the running sums lack it (`at`: its position).
   */
  waiting?: { readonly past: Tensor; at: number | undefined };
  readonly states: DeviceStates;
  /** The learned sink of each query head `[H]`, where the layer has them. */
  readonly sinks: Tensor | undefined;
  /** Whether every head holds the same positions. */
  aligned = true;
  /** Whether what was recorded for events was freed. */
  freed = false;
  /** Its heads; query heads are those of all layers that read its slots. */
  readonly heads: HeadLayout;
  readonly #readers: readonly SlotReader[];
  readonly #device: DeviceScope;
  readonly #sinks: Float32Array | undefined;

  constructor(
    heads: HeadLayout,
    device: DeviceScope,
    cache: DeviceCache,
    {
      sinks,
      readers = [],
      states = new DeviceStates(
        { query: heads.queryHeads, kv: heads.kvHeads, layer: 1, model: 1, channels: heads.headDim },
        device,
      ),
    }: {
      readonly sinks?: Float32Array | undefined;
      readonly readers?: readonly SlotReader[] | undefined;
      readonly states?: DeviceStates;
    } = {},
  ) {
    [this.heads, this.#device, this.cache, this.states] = [heads, device, cache, states];
    [this.#sinks, this.#readers] = [sinks, readers];
    this.sinks = sinks && device.scope.commands.upload(sinks, [sinks.length]);
  }

  /** Starts recording what the plan asks for; what is recorded already goes on, but for sums of fewer rows than asked for. */
  observe({ window, accumulated, block }: Pick<ObservationPlan, 'window' | 'accumulated' | 'block'>): void {
    const { queryHeads: H, kvHeads: G, headDim } = this.heads;
    if (window > (this.ring?.window ?? 0)) {
      const rows = this.#readers.length > 0 ? this.#readers.map((reader) => reader.rows) : [range(0, H)];
      this.ring = this.ring?.widen(window) ?? new DeviceRing(window, rows, this.heads, this.#device);
    }
    if (this.cache.rebased) this.ring?.markRotations();
    const sums = accumulated === 'kv' ? G : H;
    if (accumulated && (this.accumulated?.rows ?? 0) < sums) {
      this.accumulated?.destroy();
      this.accumulated = new DeviceSlotRows(sums, 0, 'statistics', this.#device);
      if (this.waiting) this.waiting.at = undefined;
    }
    // the next query over the same slots may be another layer's
    if (this.accumulated && this.#readers.length === 0 && addsTo(this.accumulated.rows, H, G, headDim))
      this.waiting ??= { past: this.#past(), at: undefined };
    if (block) this.block ??= new DeviceSlotRows(H, 0, 'statistics', this.#device);
  }

  /** Checks that the device binds what m more tokens leave in the layer. @throws KvError if it does not */
  expectRoom(m: number): void {
    this.cache.expectRoom(m);
    this.ring?.expectRoom(m);
  }

  /** Frees the rings, sums and numbers of inputs that no later event will read. */
  stopObserving(): void {
    this.freed ||= [this.ring, this.accumulated, this.block].some((each) => each !== undefined);
    this.states.dropInputs();
    for (const each of [this.ring, this.accumulated, this.block]) each?.destroy();
    if (this.waiting) this.#device.scope.commands.free(this.waiting.past);
    delete this.ring;
    delete this.accumulated;
    delete this.block;
    delete this.waiting;
  }

  /** Whether it holds a cache and nothing else, with no slot demoted. */
  get plain(): boolean {
    const { ring, accumulated, block, biases, states, cache } = this;
    return !ring && !accumulated && !block && !biases && states.empty && cache.form !== 'records';
  }

  /** Records that slots in use add these numbers `[G, n]` to their scores. */
  setBiases(biases: Tensor): void {
    this.biases ??= new DeviceSlotRows(this.heads.kvHeads, 0, 'cache', this.#device);
    this.biases.grow(this.cache.length);
    this.biases.write(biases);
  }

  /**
   * Records the compaction of the cache and all per-slot rows to these slots of each head: at most `counts`.
   * @param decided what they are, and their levels, where the host knows
   */
  keep(selection: SlotSelection, counts: readonly number[], decided?: DecidedSlots): void {
    this.cache.keep(selection, counts, decided);
    for (const rows of this.#perSlot) rows.keep(selection, counts);
    this.ring?.changed();
  }

  /** Sets the slots that the last `keep` kept, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    const [first] = slots;
    this.aligned &&= slots.every((list) => list.length === first.length && list.every((slot, i) => slot === first[i]));
    this.cache.confirm(slots);
    for (const rows of this.#perSlot) rows.confirm(this.cache.counts);
    this.biases?.settle(this.cache.counts);
  }

  /**
   * Records that kept slots move together, to end before rotation `next`, and that queries follow them. A pending query
   * was added before.
   */
  rebase(next: number, turns: Rotations): void {
    this.cache.rebase(next, turns);
    this.ring?.rebase(this.cache.kept(), next, turns);
  }

  /** Restores saved numbers into an empty layer. */
  restore({ lengths, slots, ring, accumulated, block, states, aligned }: LayerSnapshot): void {
    this.cache.restore(lengths, slots);
    this.observe({ window: ring?.window ?? 0, accumulated: accumulated?.rows, block: block !== undefined });
    if (ring) this.ring!.restore(ring); // made by observe
    for (const [rows, numbers] of [
      [this.accumulated, accumulated?.sums],
      [this.block, block],
    ] as const)
      rows?.restore(numbers!, this.cache.length); // rows are made where numbers are
    for (const state of states) this.states.restore(state);
    if (slots.biases) this.#restoreBiases(lengths, slots.biases);
    this.aligned = aligned;
  }

  /** Restores biases that lie head after head. */
  #restoreBiases(lengths: readonly number[], biases: Float32Array): void {
    const most = this.cache.length,
      rows = new Float32Array(lengths.length * most);
    let at = 0;
    for (const [g, n] of lengths.entries()) rows.set(biases.subarray(at, (at += n)), g * most);
    this.biases = new DeviceSlotRows(lengths.length, 0, 'cache', this.#device);
    this.biases.restore(rows, most);
    this.biases.settle(lengths);
  }

  /** Allocates a query of each head and its log-sum-exp. */
  #past(): Tensor {
    const { queryHeads, headDim } = this.heads;
    return this.#device.scope.commands.make([1, queryHeads * (headDim + 1)]);
  }

  /** The arrays with one entry per slot. */
  get #perSlot(): readonly DeviceSlotRows[] {
    const { accumulated, block, biases } = this;
    return [...[accumulated, block, biases].filter((rows) => rows !== undefined), ...this.states.slots];
  }

  fork(device: DeviceScope, upTo?: number): DeviceLayer {
    const copy = new DeviceLayer(this.heads, device, this.cache.fork(device, upTo), {
      sinks: this.#sinks,
      readers: this.#readers,
      states: this.states.fork(device),
    });
    if (this.ring) copy.ring = this.ring.fork(device);
    if (this.accumulated) copy.accumulated = this.accumulated.fork(device);
    if (this.block) copy.block = this.block.fork(device);
    if (this.biases) copy.biases = this.biases.fork(device);
    if (this.waiting) {
      const { past, at } = this.waiting;
      copy.waiting = { past: copy.#past(), at };
      encodeSlots(device.scope.commands, past, copy.waiting.past, past.shape[1]);
    }
    [copy.aligned, copy.freed] = [this.aligned, this.freed];
    return copy;
  }

  destroy(): void {
    this.stopObserving();
    this.states.destroy();
    this.biases?.destroy();
    this.cache.destroy();
    if (this.sinks) this.#device.scope.commands.free(this.sinks);
  }
}
