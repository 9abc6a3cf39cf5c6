import { KvError } from '@kv/core';
import { countBelow } from '@kv/core/shared';
import { decodeRows, encodeRows, floats, type Rows } from './encode.ts';
import { slotBytes, type CacheForm } from './form.ts';
import { copySlots, hostStore, packSlots, type Storage, type Store } from './storage.ts';
import type { RotateVector } from './rotate.ts';
import type { Ledger } from '../ledger.ts';
import type { Slots } from '../memory/snapshot.ts';

/**
 * What attention reads of a layer's cache. Keys are rotated by their position, the original one unless rebased; slots
 * ascend in position.
 */
export interface CacheView extends Storage {
  /** Slots in use `[G]`; heads may differ, and slots beyond are never read. */
  readonly lengths: Uint32Array;
  /**
   * Returns the keys or values of the slots in use of a KV head, `[n, d]`: the cache's own numbers in f32, a copy in any
   * other form.
   */
  read(part: CachePart, g: number): Float32Array;
}

/** Keys or values. */
export type CachePart = 'keys' | 'values';

/** What a cache has besides its heads. */
export interface LayerCacheOptions {
  /** Its name in the ledger. @defaultValue 'cache' */
  readonly name?: string;
  /** @defaultValue arrays of their own */
  readonly store?: Store | undefined;
  /** How its keys and values are stored. @defaultValue 'f32' */
  readonly form?: CacheForm | undefined;
}

/**
 * The keys and values of one layer of one sequence. Storage is replaced, never resized: when it grows or shrinks the
 * old arrays are dropped, and the ledger counts both while both exist.
 *
 * More than 15 members: each is a step on the one storage, whose lengths all of them must keep.
 */
export class LayerCache implements CacheView {
  readonly heads: number;
  readonly headDim: number;
  readonly lengths: Uint32Array;
  readonly form: CacheForm;
  readonly #ledger: Ledger;
  readonly #name: string;
  readonly #store: Store;
  #storage: Storage;

  /** Creates an empty cache of `heads` KV heads, whose bytes are counted in `ledger`. */
  constructor(
    heads: number,
    headDim: number,
    ledger: Ledger,
    { name = 'cache', store = hostStore, form = 'f32' }: LayerCacheOptions = {},
  ) {
    this.heads = heads;
    this.headDim = headDim;
    this.lengths = new Uint32Array(heads);
    this.#ledger = ledger;
    this.#name = name;
    this.#store = store;
    this.form = form;
    this.#storage = store.create({ heads, headDim, capacity: 0, form, rebased: false });
  }

  get capacity(): number {
    return this.#storage.capacity;
  }
  get keys(): Rows {
    return this.#storage.keys;
  }
  get values(): Rows {
    return this.#storage.values;
  }
  get positions(): Uint32Array {
    return this.#storage.positions;
  }
  /**
   * Positions that the keys are rotated by, `[G, capacity]`, once `rebase` has moved them away from the original ones.
   */
  get rotations(): Uint32Array | undefined {
    return this.#storage.rotations;
  }
  /** Slots of the longest head. */
  get length(): number {
    return this.lengths.reduce((a, b) => Math.max(a, b), 0);
  }
  /** Bytes of the slots in use. */
  get liveBytes(): number {
    return this.#slotBytes * this.lengths.reduce((a, b) => a + b, 0);
  }
  /** Bytes of the allocated slots. */
  get allocatedBytes(): number {
    return this.#slotBytes * this.heads * this.capacity;
  }
  get #slotBytes(): number {
    return slotBytes(this.form, this.headDim, this.rotations !== undefined);
  }

  read(part: CachePart, g: number, from = 0, count: number = this.lengths[g] - from): Float32Array {
    const { [part]: rows } = this.#storage,
      at = g * this.capacity + from,
      { headDim: d } = this;
    if (rows.form === 'f32') return floats(rows.codes).subarray(at * d, (at + count) * d);
    const out = new Float32Array(count * d);
    this.#store.decode(rows, d, at, count, out);
    return out;
  }

  /** Stores keys or values `[n, d]` in a KV head, from slot `at` on, among those in use. */
  write(part: CachePart, g: number, at: number, x: Float32Array): void {
    this.#store.encode(this.#storage[part], this.headDim, g * this.capacity + at, x);
  }

  /** Returns how many slots of each head, its first ones, come before this position. */
  before(position: number): number[] {
    return Array.from(this.lengths, (n, g) =>
      countBelow(this.positions.subarray(g * this.capacity, g * this.capacity + n), position),
    );
  }

  /** Grows the capacity to exactly `slots` per head, if it is less. */
  reserve(slots: number): void {
    if (slots > this.capacity) this.#resize(slots);
  }

  /**
   * Fits the storage before m more slots, for readers of whole storage: storage that is too small for them, or of which
   * they leave a third unused, is replaced by one with an eighth to spare.
   */
  fit(m: number): void {
    const need = this.length + m;
    if (need > this.capacity || this.capacity > 1.5 * need + 64) this.#resize(Math.ceil(1.125 * need));
  }

  /**
   * Adds m slots to every head: k and v `[G, m, d]`, original positions `[m]`. Capacity grows to what is needed, or by
   * a quarter if that is more.
   * @param shift how far the keys' rotations lie below their positions; 0 until the cache is rebased
   * @throws KvError, before anything changes, unless the arrays fit and the positions ascend from the last one.
   */
  append(k: Float32Array, v: Float32Array, positions: Uint32Array, shift = 0): void {
    const size = positions.length * this.headDim;
    if (k.length !== this.heads * size || v.length !== this.heads * size)
      throw new KvError(
        'cache',
        `append expects keys and values of ${this.heads * size} numbers for ${positions.length} positions, got ${k.length} and ${v.length}`,
      );
    const before = this.lengths.slice();
    this.extend(positions, shift);
    for (let g = 0; g < this.heads; g++) {
      this.write('keys', g, before[g], k.subarray(g * size, (g + 1) * size));
      this.write('values', g, before[g], v.subarray(g * size, (g + 1) * size));
    }
  }

  /** Makes room for m more slots. Capacity grows to what is needed, or by a quarter if that is more. */
  grow(m: number): void {
    const need = this.length + m;
    if (need > this.capacity) this.#resize(Math.max(need, Math.floor(this.capacity * 1.25)));
  }

  /** Like `append`, for slots whose keys and values the caller writes after those in use. */
  extend(positions: Uint32Array, shift = 0): void {
    this.#checkPositions(positions);
    const m = positions.length;
    this.grow(m);
    for (let g = 0; g < this.heads; g++) {
      const at = g * this.capacity + this.lengths[g];
      this.positions.set(positions, at);
      this.rotations?.set(
        positions.map((p) => p - shift),
        at,
      );
      this.lengths[g] = this.lengths[g] + m;
    }
    this.#ledger.use(this.#name, this.#slotBytes * this.heads * m);
  }

  /**
   * Keeps only these slots of each head (ascending), in place; `room` is how many more slots per head are wanted.
   * Storage more than twice as large as then needed is replaced by one that fits.
   * @throws KvError, before anything changes, unless every list ascends within its head's length.
   */
  keep(slots: readonly Uint32Array[], room = 0): void {
    this.#checkKeep(slots);
    const [live, allocated] = [this.liveBytes, this.allocatedBytes],
      need = slots.reduce((most, { length }) => Math.max(most, length), 0) + room,
      capacity = this.capacity > 2 * need ? need : this.capacity,
      next = this.#slotBytes * this.heads * capacity,
      both = capacity < this.capacity && !this.#store.inPlace;
    if (both) this.#ledger.allocate(this.#name, next);
    this.#storage = this.#store.pack(this.#storage, slots, capacity);
    for (const [g, list] of slots.entries()) this.lengths[g] = list.length;
    this.#ledger.release(this.#name, live - this.liveBytes);
    this.#ledger.free(this.#name, both ? allocated : allocated - next);
  }

  /**
   * Moves every head's slots together: their rotations become consecutive and end before `next`, and their keys are
   * rotated accordingly (Xiao et al. 2023, arXiv:2309.17453: positions within the cache). Original positions stay.
   */
  rebase(next: number, rotate: RotateVector): void {
    const rotations = this.#markRotations(),
      { headDim: d } = this,
      stored = this.keys.form !== 'f32';
    for (let g = 0; g < this.heads; g++) {
      const n = this.lengths[g],
        first = g * this.capacity,
        keys = this.read('keys', g);
      for (let i = 0; i < n; i++) {
        const to = next - n + i,
          from = rotations[first + i];
        // a key that stays is not rounded once more
        if (from === to) continue;
        rotate(keys, i * d, from, to);
        if (stored) this.write('keys', g, i, keys.subarray(i * d, (i + 1) * d));
        rotations[first + i] = to;
      }
    }
  }

  /**
   * Returns a copy with its own storage for the slots in use, those before position `upTo`, and `room` more, counted in
   * `ledger`.
   */
  fork(ledger: Ledger = this.#ledger, room = 0, upTo = Infinity): LayerCache {
    const copy = new LayerCache(this.heads, this.headDim, ledger, {
      name: this.#name,
      store: this.#store,
      form: this.form,
    });
    if (this.rotations) copy.#markRotations();
    const lengths = Uint32Array.from(this.before(upTo));
    copy.reserve(Math.max(...lengths) + room);
    copySlots(this.#storage, copy.#storage, lengths);
    copy.lengths.set(lengths);
    ledger.use(this.#name, copy.liveBytes);
    return copy;
  }

  /** Returns the slots in use, head after head, as copies. */
  slots(): Slots {
    const count = this.lengths.reduce((a, b) => a + b, 0),
      { form, headDim } = this,
      out = hostStore.create({ heads: 1, headDim, capacity: count, form, rebased: this.rotations !== undefined });
    packSlots(this.#storage, this.lengths, out);
    return out;
  }

  /** Fills an empty cache with such slots, of any form, `lengths[g]` of head g; positions must ascend in each head. */
  restore(lengths: readonly number[], slots: Slots): void {
    if (slots.rotations) this.#markRotations();
    this.reserve(Math.max(...lengths));
    this.lengths.set(lengths);
    packSlots(this.#storage, this.lengths, inForm(slots, this.form, this.headDim), true);
    this.#ledger.use(this.#name, this.liveBytes);
  }

  /** Removes all slots; the storage stays for the next sequence. */
  clear(): void {
    this.#ledger.release(this.#name, this.liveBytes);
    this.lengths.fill(0);
  }

  /** Frees everything. Idempotent. */
  destroy(): void {
    this.clear();
    this.#resize(0);
  }

  #resize(capacity: number): void {
    const old = this.allocatedBytes;
    const { heads, headDim, form } = this,
      next = this.#store.create({ heads, headDim, capacity, form, rebased: this.rotations !== undefined });
    this.#ledger.allocate(this.#name, this.#slotBytes * this.heads * capacity);
    copySlots(this.#storage, next, this.lengths);
    this.#store.release(this.#storage);
    this.#storage = next;
    this.#ledger.free(this.#name, old);
  }

  /** Returns the slots' own rotations, made from the original positions if there are none yet. */
  #markRotations(): Uint32Array {
    if (this.rotations) return this.rotations;
    const [live, allocated] = [this.liveBytes, this.allocatedBytes],
      rotations = this.positions.slice();
    this.#storage = { ...this.#storage, rotations };
    this.#ledger.allocate(this.#name, this.allocatedBytes - allocated);
    this.#ledger.use(this.#name, this.liveBytes - live);
    return rotations;
  }

  #checkPositions(positions: Uint32Array): void {
    let last = -1;
    for (let g = 0; g < this.heads; g++)
      if (this.lengths[g] > 0) last = Math.max(last, this.positions[g * this.capacity + this.lengths[g] - 1]);
    for (const position of positions) {
      if (position <= last) throw new KvError('cache', `positions must ascend, got ${position} after ${last}`);
      last = position;
    }
  }

  #checkKeep(slots: readonly Uint32Array[]): void {
    if (slots.length !== this.heads)
      throw new KvError('cache', `keep expects one list of slots for each of ${this.heads} heads, got ${slots.length}`);
    for (const [g, list] of slots.entries()) {
      const end = this.lengths[g];
      for (let i = 0, last = -1; i < list.length; i++) {
        const slot = list[i];
        if (slot <= last || slot >= end)
          throw new KvError('cache', `kept slots must ascend below ${end} in head ${g}, got ${slot} at ${i}`);
        last = slot;
      }
    }
  }
}

/** Returns slots in a form: themselves, or a copy that is decoded and encoded. */
export function inForm(slots: Slots, form: CacheForm, d: number): Slots {
  if (slots.form === form) return slots;
  const { positions } = slots,
    count = positions.length,
    out = hostStore.create({ heads: 1, headDim: d, capacity: count, form, rebased: false }),
    x = new Float32Array(count * d);
  for (const part of ['keys', 'values'] as const) {
    decodeRows(slots[part], d, 0, count, x);
    encodeRows(out[part], d, 0, x);
  }
  return { ...out, positions, ...(slots.rotations && { rotations: slots.rotations }) };
}
