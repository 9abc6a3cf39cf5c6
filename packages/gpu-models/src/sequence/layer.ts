import type { ModelConfig, Watch } from '@kv/models';
import { DeviceCache } from './cache.ts';
import type { Home, Selection } from './home.ts';
import { DeviceRing } from './ring.ts';
import { DeviceRows } from './slot-rows.ts';
import { DeviceStates } from './states.ts';

/** One layer of one sequence on the device: its cache and what events want remembered about it. */
export class DeviceLayer {
  readonly cache: DeviceCache;
  ring?: DeviceRing;
  /** Column sums over every query so far, and over the newest block's, `[H, n]`. */
  accumulated?: DeviceRows;
  block?: DeviceRows;
  readonly states: DeviceStates;
  /** Every head holds the same positions. */
  aligned = true;
  readonly #config: ModelConfig;
  readonly #home: Home;

  constructor(config: ModelConfig, home: Home, cache: DeviceCache = new DeviceCache(config.kvHeads, config.headDim, home), states: DeviceStates = new DeviceStates({ query: config.queryHeads, kv: config.kvHeads, layer: 1, model: 1 }, home)) {
    [this.#config, this.#home, this.cache, this.states] = [config, home, cache, states];
  }

  /** Starts to remember what `watch` asks for; what is already remembered goes on. */
  watch({ window, accumulated, block }: Watch): void {
    const { queryHeads: H, headDim } = this.#config;
    if (window > 0) this.ring ??= new DeviceRing(window, H, headDim, this.#home);
    if (accumulated) this.accumulated ??= new DeviceRows(H, 0, 'statistics', this.#home);
    if (block) this.block ??= new DeviceRows(H, 0, 'statistics', this.#home);
  }

  /** Forgets the rings and sums that no later event will read. */
  unwatch(): void {
    for (const each of [this.ring, this.accumulated, this.block]) each?.destroy();
    delete this.ring;
    delete this.accumulated;
    delete this.block;
  }

  /** It holds a cache and nothing beside it. */
  get plain(): boolean {
    return !this.ring && !this.accumulated && !this.block && this.states.empty;
  }

  /** Records the compaction of the cache and everything beside it to these slots of each head: at most `counts`. */
  keep(selection: Selection, counts: readonly number[]): void {
    for (const each of [this.cache, ...this.#beside]) each.keep(selection, counts);
  }

  /** What the last `keep` left, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    const [first] = slots;
    this.aligned &&= slots.every((list) => list.length === first!.length && list.every((slot, i) => slot === first![i]));
    this.cache.confirm(slots);
    for (const rows of this.#beside) rows.confirm(this.cache.counts);
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
    copy.aligned = this.aligned;
    return copy;
  }

  destroy(): void {
    this.unwatch();
    this.states.destroy();
    this.cache.destroy();
  }
}
