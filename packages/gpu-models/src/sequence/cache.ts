import type { Tensor } from '@kv/core';
import { encodeAppend, encodeCompact, encodeSlots, type DeviceSlots } from '../operations.ts';
import { forRows, type Home, type Selection } from './home.ts';

/**
 * Keys, values and positions of one layer on the device, each head at its own length. Storage is replaced, never stretched, when the host's would be; lengths
 * and positions are known on the host as well, since it chose them.
 */
export class DeviceCache implements DeviceSlots {
  readonly heads: number;
  readonly headDim: number;
  capacity = 0;
  keys: Tensor;
  values: Tensor;
  positions: Tensor;
  /** u32 `[G]`, and where the next ones go. */
  lengths: Tensor;
  #next: Tensor;
  /** Slots in use, `[kvHead]`. */
  counts: readonly number[];
  /** Positions that the last event kept in each head, and those that joined all of them since. */
  #held: readonly (readonly number[])[];
  #joined: number[] = [];
  readonly #home: Home;

  constructor(heads: number, headDim: number, home: Home) {
    [this.heads, this.headDim, this.#home] = [heads, headDim, home];
    [this.keys, this.values, this.positions] = this.#storage(0);
    [this.lengths, this.#next] = [home.scope.commands.upload(new Uint32Array(heads), [heads]), home.scope.commands.make([heads], 'u32')];
    this.counts = Array<number>(heads).fill(0);
    this.#held = this.counts.map(() => []);
  }

  /** The longest head's slots. */
  get length(): number {
    return Math.max(...this.counts);
  }
  get #slotBytes(): number {
    return 4 * (2 * this.headDim + 1);
  }
  get #liveBytes(): number {
    return this.#slotBytes * this.counts.reduce((a, b) => a + b, 0);
  }

  /** Every head holds as many slots. */
  get even(): boolean {
    return this.counts.every((n) => n === this.counts[0]);
  }

  /** Positions in the cache, `[kvHead]`, ascending. */
  kept(): number[][] {
    return this.#held.map((held) => [...held, ...this.#joined]);
  }

  /** Room for m more slots, by a quarter at least where there is none. */
  grow(m: number): void {
    const need = this.length + m;
    if (need > this.capacity) this.#resize(Math.max(need, Math.floor(this.capacity * 1.25)));
  }

  /** Adds the next m slots, which there is room for, to every head: keys and values `[G, m, d]` at positions `added [m]`, `at` on the host. */
  append(k: Tensor, v: Tensor, added: Tensor, at: Iterable<number>): void {
    const m = added.shape[0]!;
    encodeAppend(this.#home.scope.commands, this, k, v, added, this.#next);
    [this.lengths, this.#next] = [this.#next, this.lengths];
    this.counts = this.counts.map((n) => n + m);
    this.#joined.push(...at);
    this.#home.ledger.use('cache', this.#slotBytes * this.heads * m);
  }

  /** Records that only these slots of each head stay, in place: at most `counts`, until `confirm` says which. Storage of more than twice what is then needed is replaced by one that fits. */
  keep(selection: Selection, counts: readonly number[]): void {
    const { commands } = this.#home.scope, { kept, counts: valid } = forRows(selection, this.heads);
    for (const data of [this.keys, this.values, this.positions]) encodeCompact(commands, data, kept, valid);
    encodeSlots(commands, { ...valid, shape: [1, valid.shape[0]!] }, { ...this.lengths, shape: [1, this.heads] }, this.heads);
    this.#count(counts);
  }

  /** The slots that the last `keep` left, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    this.#held = slots.map((list, g) => Array.from(list, (slot) => this.#held[g]![slot] ?? this.#joined[slot - this.#held[g]!.length]!));
    this.#joined = [];
    this.#count(slots.map(({ length }) => length));
  }

  /** A copy of every head's first `upTo` slots. */
  fork(home: Home, upTo: number = Infinity): DeviceCache {
    const copy = new DeviceCache(this.heads, this.headDim, home), counts = this.counts.map((n) => Math.min(n, upTo));
    copy.#resize(Math.max(...counts));
    this.#copy(copy, copy.capacity);
    copy.counts = counts;
    home.scope.commands.write(copy.lengths, Uint32Array.from(counts), 0);
    copy.#held = this.kept().map((row, g) => row.slice(0, counts[g]));
    home.ledger.use('cache', copy.#liveBytes);
    return copy;
  }

  /** Gives its bytes back; the memory goes with the scope. */
  destroy(): void {
    this.#count(this.counts.map(() => 0));
  }

  #storage(capacity: number): [keys: Tensor, values: Tensor, positions: Tensor] {
    const { commands } = this.#home.scope, shape = [this.heads, capacity, this.headDim];
    return [commands.make(shape), commands.make(shape), commands.make([this.heads, capacity], 'u32')];
  }

  /** There are fewer slots in use. */
  #count(counts: readonly number[]): void {
    const before = this.#liveBytes;
    this.counts = counts;
    this.#home.ledger.release('cache', before - this.#liveBytes);
    if (this.capacity > 2 * this.length) this.#resize(this.length);
  }

  #copy(to: Pick<DeviceCache, 'keys' | 'values' | 'positions'>, slots: number): void {
    const { commands } = this.#home.scope;
    encodeSlots(commands, this.keys, to.keys, slots);
    encodeSlots(commands, this.values, to.values, slots);
    encodeSlots(commands, this.positions, to.positions, slots);
  }

  #resize(capacity: number): void {
    const { scope: { commands }, ledger } = this.#home, bytes = this.#slotBytes * this.heads, [keys, values, positions] = this.#storage(capacity);
    ledger.allocate('cache', bytes * capacity);
    this.#copy({ keys, values, positions }, Math.min(this.length, capacity));
    for (const old of [this.keys, this.values, this.positions]) commands.free(old);
    ledger.free('cache', bytes * this.capacity);
    [this.keys, this.values, this.positions, this.capacity] = [keys, values, positions, capacity];
  }
}
