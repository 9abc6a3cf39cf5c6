import type { Heads } from '@kv/checkpoints';
import { LayerCache } from '../cache/layer-cache.ts';
import type { CacheForm } from '../cache/form.ts';
import { hostStore, type Store } from '../cache/storage.ts';
import { equal } from '../decoder/equal.ts';
import type { Ledger } from '../ledger.ts';
import { QueryRing } from './query-ring.ts';
import type { LayerSnapshot } from '../memory/snapshot.ts';
import { SlotIndex } from './slot-index.ts';
import { SlotRows } from '../cache/slot-rows.ts';
import { StateStore } from './store.ts';
import { WindowStatsCache } from './window-columns.ts';
import type { ObservationPlan } from '../memory/observation-plan.ts';

/** One layer of one sequence: its cache and what events want recorded about it. */
export class LayerMemory {
  readonly cache: LayerCache;
  ring?: QueryRing;
  /** Column sums over every query so far, `[H, n]` or `[G, n]`, and over the queries of the newest block, `[H, n]`. */
  accumulated?: SlotRows;
  block?: SlotRows;
  /** Statistics of the last queries over the current cache. */
  readonly windowStats: WindowStatsCache;
  states: StateStore;
  /** Whether every head holds the same positions. */
  aligned = true;
  /** Whether what was recorded for events was freed. */
  freed = false;
  readonly #ledger: Ledger;
  readonly #store: Store;
  /** What loops keep about keys, by loop. */
  readonly #indexes = new Map<object, SlotIndex>();

  /** @param store allocates the cache, the states, the queries and the indexes @defaultValue arrays of their own */
  constructor(
    heads: Heads,
    ledger: Ledger,
    {
      store = hostStore,
      form,
      cache = new LayerCache(heads.kvHeads, heads.headDim, ledger, { store, form }),
    }: { readonly cache?: LayerCache; readonly store?: Store | undefined; readonly form?: CacheForm | undefined } = {},
  ) {
    [this.#ledger, this.#store] = [ledger, store];
    this.cache = cache;
    this.states = new StateStore(heads, ledger, store);
    this.windowStats = new WindowStatsCache(ledger);
  }

  /** Returns what a loop keeps about the keys, `numbers` for every `slots` slots, with room for the slots in use. */
  index(loop: object, { slots, numbers }: { readonly slots: number; readonly numbers: number }): SlotIndex {
    let index = this.#indexes.get(loop);
    if (!index) {
      index = new SlotIndex(this.cache.heads, slots, numbers, this.#ledger, this.#store);
      this.#indexes.set(loop, index);
    }
    index.grow(this.cache.length);
    return index;
  }

  /** Frees what other loops than these keep about keys: those of a policy that is no longer decoded under. */
  keepIndexes(loops: readonly object[]): void {
    for (const [loop, index] of this.#indexes) {
      if (loops.includes(loop)) continue;
      index.destroy();
      this.#indexes.delete(loop);
    }
  }

  /** Forgets what loops keep about keys, which have changed. */
  clearIndexes(): void {
    for (const index of this.#indexes.values()) index.clear();
  }

  /** Starts recording what the plan asks for; what is recorded already goes on, but for sums of fewer rows than asked for. */
  observe(
    { window, accumulated, block }: Pick<ObservationPlan, 'window' | 'accumulated' | 'block'>,
    { queryHeads: H, kvHeads: G, headDim: d }: Heads,
    ledger: Ledger,
  ): void {
    if (window > (this.ring?.window ?? 0))
      this.ring = this.ring?.widen(window) ?? new QueryRing(window, H, d, ledger, this.#store);
    if (this.cache.rotations) this.ring?.markRotations();
    const rows = accumulated === 'kv' ? G : H;
    if (accumulated && (this.accumulated?.rows ?? 0) < rows) {
      this.accumulated?.destroy();
      this.accumulated = new SlotRows(rows, 0, 'statistics', ledger);
    }
    if (block && !this.block) this.block = new SlotRows(H, 0, 'statistics', ledger);
  }

  /** Whether it holds a cache only, with no slot demoted. */
  get plain(): boolean {
    const { biases, records } = this.cache;
    return !this.ring && !this.accumulated && !this.block && this.states.empty && !biases && !records;
  }

  /** Frees the rings, sums and numbers of inputs that no later event will read. */
  stopObserving(): void {
    this.freed ||= [this.ring, this.accumulated, this.block].some((each) => each !== undefined);
    this.states.dropInputs();
    this.windowStats.clear();
    this.ring?.destroy();
    this.accumulated?.destroy();
    this.block?.destroy();
    delete this.ring;
    delete this.accumulated;
    delete this.block;
  }

  /** Compacts the cache and all per-slot arrays to these slots of each KV head, at no finer levels than these. */
  keep(kept: readonly Uint32Array[], room: number, levels?: readonly Uint8Array[]): void {
    const same = this.aligned && kept.every((slots) => slots === kept[0] || equal(slots, kept[0]));
    this.windowStats.clear();
    this.clearIndexes();
    this.cache.keep(kept, room, levels);
    this.accumulated?.keep(kept);
    this.block?.keep(kept);
    this.states.keep(kept);
    this.aligned = same;
  }

  /** @param upTo copies only the slots before this position, of a plain layer */
  fork(heads: Heads, ledger: Ledger, upTo: number): LayerMemory {
    const copy = new LayerMemory(heads, ledger, { cache: this.cache.fork(ledger, 0, upTo), store: this.#store });
    if (this.ring) copy.ring = this.ring.fork(ledger);
    if (this.accumulated) copy.accumulated = this.accumulated.fork(ledger);
    if (this.block) copy.block = this.block.fork(ledger);
    copy.states = this.states.fork(ledger);
    [copy.aligned, copy.freed] = [this.aligned, this.freed];
    return copy;
  }

  saved({ queryHeads: H }: Pick<Heads, 'queryHeads'>): LayerSnapshot {
    const { cache, ring, accumulated, block, states, aligned } = this;
    return {
      lengths: [...cache.lengths],
      aligned,
      slots: cache.slots(),
      ring: ring && { window: ring.window, ...ring.saved() },
      accumulated: accumulated && {
        rows: accumulated.rows === H ? 'query' : 'kv',
        sums: accumulated.dense(cache.length),
      },
      block: block?.dense(cache.length),
      states: states.saved(),
    };
  }

  /** Restores saved numbers into an empty layer. */
  restore(
    { lengths, slots, ring, accumulated, block, states, aligned }: LayerSnapshot,
    heads: Heads,
    ledger: Ledger,
  ): void {
    this.cache.restore(lengths, slots);
    this.observe(
      { window: ring?.window ?? 0, accumulated: accumulated?.rows, block: block !== undefined },
      heads,
      ledger,
    );
    if (ring) this.ring!.restore(ring); // made by observe
    for (const [rows, numbers] of [
      [this.accumulated, accumulated?.sums],
      [this.block, block],
    ] as const) {
      rows?.grow(this.cache.length);
      rows?.write(numbers!, this.cache.length); // rows are made where numbers are
    }
    for (const state of states) this.states.restore(state);
    this.aligned = aligned;
  }

  destroy(): void {
    this.stopObserving();
    for (const index of this.#indexes.values()) index.destroy();
    this.#indexes.clear();
    this.states.destroy();
    this.cache.destroy();
  }
}
