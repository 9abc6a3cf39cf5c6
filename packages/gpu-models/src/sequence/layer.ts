import type { Tensor } from '@kv/core';
import type { ModelConfig } from '@kv/checkpoints';
import type { LayerSnapshot, Watch } from '@kv/engine';
import { addsTo } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import { DeviceCache } from './cache.ts';
import type { Home, Selection } from './device-scope.ts';
import { DeviceRing } from './ring.ts';
import { DeviceRows } from './slot-rows.ts';
import { DeviceStates } from './states.ts';
import type { Turns } from './rotate-rows.ts';

/** One layer of one sequence on the device: its cache and what events want remembered about it. */
export class DeviceLayer {
  readonly cache: DeviceCache;
  ring?: DeviceRing;
  /** Column sums over every query so far, `[H, n]` or `[G, n]`, and over the newest block's, `[H, n]`. */
  accumulated?: DeviceRows;
  block?: DeviceRows;
  /**
   * The last decoded query, `[H * d]` and its log-sum-exp `[H]`, as long as the running sums lack it (`at`: its
   * position).
   */
  waiting?: { readonly past: Tensor; at: number | undefined };
  readonly states: DeviceStates;
  /** Every head holds the same positions. */
  aligned = true;
  readonly #config: ModelConfig;
  readonly #home: Home;

  constructor(
    config: ModelConfig,
    home: Home,
    cache: DeviceCache = new DeviceCache(config.kvHeads, config.headDim, home),
    states: DeviceStates = new DeviceStates({ query: config.queryHeads, kv: config.kvHeads, layer: 1, model: 1 }, home),
  ) {
    [this.#config, this.#home, this.cache, this.states] = [config, home, cache, states];
  }

  /** Starts to remember what `watch` asks for; what is already remembered goes on. */
  watch({ window, accumulated, block }: Watch): void {
    const { queryHeads: H, kvHeads: G, headDim } = this.#config;
    if (window > 0) this.ring ??= new DeviceRing(window, H, headDim, this.#home);
    if (this.cache.rebased) this.ring?.markRotations();
    if (accumulated) this.accumulated ??= new DeviceRows(accumulated === 'kv' ? G : H, 0, 'statistics', this.#home);
    if (this.accumulated && addsTo(this.accumulated.rows, H, G, headDim))
      this.waiting ??= { past: this.#past(), at: undefined };
    if (block) this.block ??= new DeviceRows(H, 0, 'statistics', this.#home);
  }

  /** Forgets the rings and sums that no later event will read. */
  unwatch(): void {
    for (const each of [this.ring, this.accumulated, this.block]) each?.destroy();
    if (this.waiting) this.#home.scope.commands.free(this.waiting.past);
    delete this.ring;
    delete this.accumulated;
    delete this.block;
    delete this.waiting;
  }

  /** It holds a cache and nothing beside it. */
  get plain(): boolean {
    return !this.ring && !this.accumulated && !this.block && this.states.empty;
  }

  /** Records the compaction of the cache and everything beside it to these slots of each head: at most `counts`. */
  keep(selection: Selection, counts: readonly number[]): void {
    for (const each of [this.cache, ...this.#beside]) each.keep(selection, counts);
    this.ring?.changed();
  }

  /** What the last `keep` left, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    const [first] = slots;
    this.aligned &&= slots.every((list) => list.length === first.length && list.every((slot, i) => slot === first[i]));
    this.cache.confirm(slots);
    for (const rows of this.#beside) rows.confirm(this.cache.counts);
  }

  /**
   * Records that kept slots move together, to end before rotation `next`, and that queries follow them. What waits has
   * been added.
   */
  rebase(next: number, turns: Turns): void {
    this.cache.rebase(next, turns);
    this.ring?.rebase(this.cache.kept(), next, turns);
  }

  /** Takes saved numbers into a layer that has none. */
  restore({ lengths, slots, ring, accumulated, block, states, aligned }: LayerSnapshot): void {
    this.cache.restore(lengths, slots);
    this.watch({ window: ring?.window ?? 0, accumulated: accumulated?.rows, block: block !== undefined });
    if (ring) this.ring!.restore(ring); // made by watch
    for (const [rows, numbers] of [
      [this.accumulated, accumulated?.sums],
      [this.block, block],
    ] as const)
      rows?.restore(numbers!, this.cache.length); // rows are made where numbers are
    for (const state of states) this.states.restore(state);
    this.aligned = aligned;
  }

  /** Room for a query of each head and its log-sum-exp. */
  #past(): Tensor {
    const { queryHeads, headDim } = this.#config;
    return this.#home.scope.commands.make([1, queryHeads * (headDim + 1)]);
  }

  /** One entry a slot. */
  get #beside(): readonly DeviceRows[] {
    return [...(this.accumulated ? [this.accumulated] : []), ...(this.block ? [this.block] : []), ...this.states.slots];
  }

  fork(home: Home, upTo?: number): DeviceLayer {
    const copy = new DeviceLayer(this.#config, home, this.cache.fork(home, upTo), this.states.fork(home));
    if (this.ring) copy.ring = this.ring.fork(home);
    if (this.accumulated) copy.accumulated = this.accumulated.fork(home);
    if (this.block) copy.block = this.block.fork(home);
    if (this.waiting) {
      const { past, at } = this.waiting;
      copy.waiting = { past: copy.#past(), at };
      encodeSlots(home.scope.commands, past, copy.waiting.past, past.shape[1]);
    }
    copy.aligned = this.aligned;
    return copy;
  }

  destroy(): void {
    this.unwatch();
    this.states.destroy();
    this.cache.destroy();
  }
}
