import { KvError } from '@kv/core';
import { countBelow, range } from '@kv/core/shared';
import { floats } from './encode.ts';
import { movedForm, storedForms, type StorageForm } from './form.ts';
import {
  bytesHeld,
  bytesInUse,
  hasRecords,
  keepRecords,
  levelAt,
  levelOf,
  newSlotBytes,
  recordRows,
  storeRecords,
  type MovedSlots,
} from './records.ts';
import { roundingAfter, storedBound } from './rounding.ts';
import { SlotRows } from './slot-rows.ts';
import { copySlots, hostStore, inForm, packSlots, type Storage, type Store } from './storage.ts';
import { plainRows, type CachePart, type EarlierRounding, type Records, type CacheRows } from './cache-rows.ts';
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
  /** What slots add to their logits; absent where none adds anything. */
  readonly biases?: SlotBiases | undefined;
}

/** What the slots of each KV head add to their logits after any soft cap, `[G, stride]`; 0 beyond those in use. */
export interface SlotBiases {
  readonly data: Float32Array;
  readonly stride: number;
}

/** What a cache has besides its heads. */
export interface LayerCacheOptions {
  /** Its name in the ledger. @defaultValue 'cache' */
  readonly name?: string;
  /** @defaultValue arrays of their own */
  readonly store?: Store | undefined;
  /** How its keys and values are stored. @defaultValue 'f32' */
  readonly form?: StorageForm | undefined;
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
  readonly #ledger: Ledger;
  readonly #name: string;
  readonly #store: Store;
  /** The form that it was created in. */
  readonly #own: StorageForm;
  #storage: Storage;
  #biases: SlotRows | undefined;
  /** What was rounded off before the slots were stored as they are. */
  #rounded: EarlierRounding = { keys: 0, values: 0 };

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
    [this.#store, this.#own] = [store, form];
    this.#storage = store.create({ heads, headDim, capacity: 0, form, rebased: false });
  }

  /** How its newest slots are stored: as it was created, until its slots are moved. */
  get form(): StorageForm {
    return this.#storage.form;
  }
  get capacity(): number {
    return this.#storage.capacity;
  }
  get keys(): CacheRows {
    return this.#storage.keys;
  }
  get values(): CacheRows {
    return this.#storage.values;
  }
  /** Slots at levels of their own, once one was demoted. */
  get records(): Records | undefined {
    return this.#storage.records;
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
  get biases(): SlotBiases | undefined {
    return this.#biases;
  }
  /** Slots of the longest head. */
  get length(): number {
    return this.lengths.reduce((a, b) => Math.max(a, b), 0);
  }
  /** Bytes of the slots in use. */
  get liveBytes(): number {
    return bytesInUse(this.#storage, this.lengths);
  }
  /** Bytes of the allocated slots. */
  get allocatedBytes(): number {
    return bytesHeld(this.#storage);
  }

  /** Returns the levels of the slots in use, `[kvHead][slot]`; undefined while all have the cache's form. */
  levels(): Uint8Array[] | undefined {
    if (!this.records) return undefined;
    return Array.from(this.lengths, (n, g) =>
      Uint8Array.from({ length: n }, (_, i) => levelAt(this.#storage, g * this.capacity + i)),
    );
  }

  read(part: CachePart, g: number, from = 0, count: number = this.lengths[g] - from): Float32Array {
    const storage = this.#storage,
      at = g * this.capacity + from,
      { headDim: d } = this,
      { [part]: rows } = storage;
    if (rows.form === 'f32') return floats(rows.codes).subarray(at * d, (at + count) * d);
    const out = new Float32Array(count * d);
    if (hasRecords(storage)) this.#store.decodeRecords(recordRows(storage, part, at, count), d, out);
    else this.#store.decode(plainRows(rows), d, at, count, out);
    return out;
  }

  /** Stores keys or values `[n, d]` in a KV head, from slot `at` on, among those in use. */
  write(part: CachePart, g: number, at: number, x: Float32Array): void {
    const storage = this.#storage,
      { headDim: d } = this,
      first = g * this.capacity + at;
    if (hasRecords(storage)) this.#store.encodeRecords(recordRows(storage, part, first, x.length / d), d, x);
    else this.#store.encode(plainRows(storage[part]), d, first, x);
  }

  /** Sets what each slot in use adds to its logit, `[kvHead][slot]`; nothing is held where none adds anything. */
  setBiases(given: readonly Float32Array[]): void {
    if (given.every((head) => head.every((bias) => bias === 0))) {
      this.#dropBiases();
      return;
    }
    this.#biases ??= new SlotRows(this.heads, 0, this.#name, this.#ledger, this.#store);
    this.#biases.fill(0);
    this.#biases.reserve(this.capacity);
    this.#biases.grow(this.length);
    this.#biases.settle(this.lengths);
    for (const [g, head] of given.entries()) this.#biases.write(head, head.length, Uint32Array.of(g));
  }

  #dropBiases(): void {
    this.#biases?.destroy();
    this.#biases = undefined;
  }

  /** Returns how many slots of each head, its first ones, come before this position. */
  before(position: number): number[] {
    return Array.from(this.lengths, (n, g) =>
      countBelow(this.positions.subarray(g * this.capacity, g * this.capacity + n), position),
    );
  }

  /** Returns a bound on what storing has rounded off a key or a value of a KV head; Infinity where it is not known. */
  rounding(part: CachePart, g: number): number {
    return this.#rounded[part] + storedBound(this.#storage, part, g, this.lengths[g]);
  }

  /** Counts what storing has rounded off keys or values so far as done, since some are stored once more. */
  roundAgain(part: CachePart): void {
    const now = Math.max(...Array.from({ length: this.heads }, (_, g) => this.rounding(part, g)));
    this.#rounded = { ...this.#rounded, [part]: now };
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
    this.#biases?.reserve(need);
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
    this.#biases?.grow(this.length);
    this.#ledger.use(this.#name, newSlotBytes(this.#storage) * this.heads * m);
  }

  /**
   * Keeps only these slots of each head (ascending), in place; `room` is how many more slots per head are wanted.
   * Storage more than twice as large as then needed is replaced by one that fits.
   * @param levels of these slots: each is stored at the coarser of its level and this one
   * @throws KvError, before anything changes, unless every list ascends within its head's length.
   */
  keep(slots: readonly Uint32Array[], room = 0, levels?: readonly Uint8Array[]): void {
    this.#checkKeep(slots);
    this.#biases?.keep(slots);
    this.#biases?.settle(slots.map(({ length }) => length));
    const [live, allocated] = [this.liveBytes, this.allocatedBytes],
      need = slots.reduce((most, { length }) => Math.max(most, length), 0) + room,
      own = levelOf(this.form);
    if (this.records && need === room) {
      // what is empty begins without levels again
      this.clear();
      if (this.rotations) this.#storeAs(movedForm(this.#own)); // as the other layers
      this.reserve(room);
      return;
    }
    if (this.records || levels?.some((of) => of.some((level) => level > own))) {
      this.#demote(slots, need, levels);
      return;
    }
    const capacity = this.capacity > 2 * need ? need : this.capacity,
      next = newSlotBytes(this.#storage) * this.heads * capacity,
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
    // keys that are rotated again and again are rounded less
    if (!this.records) this.#storeAs(movedForm(this.form));
    const rotations = this.#markRotations(),
      { headDim: d } = this,
      stored = this.keys.form !== 'f32';
    let counted = !stored;
    for (let g = 0; g < this.heads; g++) {
      const n = this.lengths[g],
        first = g * this.capacity,
        keys = this.read('keys', g);
      for (let i = 0; i < n; i++) {
        const to = next - n + i,
          from = rotations[first + i];
        // a key that stays is not rounded once more
        if (from === to) continue;
        if (!counted) this.roundAgain('keys');
        counted = true;
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
      form: this.#own,
    });
    copy.#storeAs(this.form);
    if (this.rotations) copy.#markRotations();
    const lengths = Uint32Array.from(this.before(upTo)),
      capacity = Math.max(...lengths) + room;
    if (this.records && capacity > room) copy.#adopt(this.#whole(lengths), capacity);
    else {
      copy.reserve(capacity);
      copySlots(this.#storage, copy.#storage, lengths);
    }
    copy.lengths.set(lengths);
    copy.#rounded = this.#rounded;
    ledger.use(this.#name, copy.liveBytes);
    if (this.#biases) copy.setBiases(this.#biasRows(lengths));
    return copy;
  }

  /** Returns what the first slots of each head add to their logits. */
  #biasRows(lengths: Uint32Array): Float32Array[] {
    const { data, stride } = this.#biases!; // asked for where there are some
    return Array.from(lengths, (n, g) => data.slice(g * stride, g * stride + n));
  }

  /** Returns the slots in use, head after head, as copies. */
  slots(): Slots {
    const slots = { ...this.#storedSlots(), rounded: this.#rounded };
    if (!this.#biases) return slots;
    return { ...slots, biases: Float32Array.from(this.#biasRows(this.lengths).flatMap((head) => [...head])) };
  }

  #storedSlots(): Slots {
    const count = this.lengths.reduce((a, b) => a + b, 0),
      { form, headDim } = this,
      shape = { heads: 1, headDim, capacity: count, form, rebased: this.rotations !== undefined };
    if (this.records) {
      const { from, lists } = this.#whole(this.lengths);
      return storeRecords(hostStore, { from, lists: [Uint32Array.from(lists.flatMap((list) => [...list]))] }, shape);
    }
    const out = hostStore.create(shape);
    packSlots(this.#storage, this.lengths, out);
    return out;
  }

  /** Fills an empty cache with such slots, of any form, `lengths[g]` of head g; positions must ascend in each head. */
  restore(lengths: readonly number[], slots: Slots): void {
    this.#restoreSlots(lengths, slots);
    const { biases } = slots;
    if (!biases) return;
    let at = 0;
    this.setBiases(lengths.map((n) => biases.subarray(at, (at += n))));
  }

  #restoreSlots(lengths: readonly number[], slots: Slots): void {
    if (slots.rotations) this.#markRotations();
    if (slots.form === movedForm(this.form)) this.#storeAs(slots.form);
    this.#rounded = roundingAfter(slots, this.form, this.headDim);
    const most = Math.max(...lengths);
    if (slots.records) {
      let at = 0;
      const lists = lengths.map((n) => range((at += n) - n, n));
      this.#adopt({ from: { heads: 1, headDim: this.headDim, capacity: at, ...slots }, lists }, most);
      this.lengths.set(lengths);
      this.#ledger.use(this.#name, this.liveBytes);
      return;
    }
    this.reserve(most);
    this.lengths.set(lengths);
    packSlots(this.#storage, this.lengths, inForm(slots, this.form, this.headDim), true);
    this.#ledger.use(this.#name, this.liveBytes);
  }

  /** Removes all slots; the storage stays for the next sequence. */
  clear(): void {
    this.#ledger.release(this.#name, this.liveBytes);
    this.#dropBiases();
    this.#rounded = { keys: 0, values: 0 };
    this.lengths.fill(0);
    if (this.records) this.#resize(0); // the next sequence begins without levels
  }

  /** Frees everything. Idempotent. */
  destroy(): void {
    this.clear();
    this.#resize(0);
  }

  /** Keeps slots where some have levels of their own, or are given them. */
  #demote(slots: readonly Uint32Array[], need: number, levels?: readonly Uint8Array[]): void {
    if (!this.records) this.#storeAs(this.#own);
    const live = this.liveBytes,
      moved = {
        from: this.#storage,
        lists: slots.map((list, g) => list.map((slot) => g * this.capacity + slot)),
        levels,
      };
    if (!keepRecords(this.#store, moved, need)) this.#adopt(moved, need);
    for (const [g, list] of slots.entries()) this.lengths[g] = list.length;
    const more = this.liveBytes - live;
    if (more > 0) this.#ledger.use(this.#name, more);
    else this.#ledger.release(this.#name, -more);
  }

  /** Replaces the storage by one of records that holds these slots. */
  #adopt(moved: MovedSlots, capacity: number): void {
    const old = this.#storage,
      { heads, headDim, form } = this,
      held = bytesHeld(old),
      next = storeRecords(this.#store, moved, {
        heads,
        headDim,
        capacity,
        form,
        rebased: this.rotations !== undefined,
      });
    this.#ledger.allocate(this.#name, bytesHeld(next));
    this.#store.release(old);
    this.#storage = next;
    this.#ledger.free(this.#name, held);
  }

  /** Returns the first slots of each head, where they are. */
  #whole(lengths: Uint32Array): MovedSlots {
    return { from: this.#storage, lists: Array.from(lengths, (n, g) => range(g * this.capacity, n)) };
  }

  #resize(capacity: number): void {
    if (this.records && this.length > 0) {
      this.#adopt(this.#whole(this.lengths), capacity);
      return;
    }
    const old = this.allocatedBytes;
    const { heads, headDim, form } = this,
      next = this.#store.create({ heads, headDim, capacity, form, rebased: this.rotations !== undefined });
    this.#ledger.allocate(this.#name, bytesHeld(next));
    if (!this.records) copySlots(this.#storage, next, this.lengths);
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

  /** Stores the slots in use, of one form, in another one. */
  #storeAs(form: StorageForm): void {
    if (form === this.form) return;
    const old = this.#storage,
      [live, held] = [this.liveBytes, this.allocatedBytes],
      parts = (['keys', 'values'] as const).filter((part) => storedForms[form][part] !== old[part].form),
      rows = parts.map((part) => [part, Array.from(this.lengths, (_, g) => this.read(part, g))] as const),
      next = this.#store.create({ ...old, form, rebased: this.rotations !== undefined });
    this.#ledger.allocate(this.#name, bytesHeld(next));
    next.positions.set(old.positions);
    if (old.rotations) next.rotations?.set(old.rotations);
    for (const part of parts) this.roundAgain(part);
    // rows that keep their form are not rounded once more
    for (const part of ['keys', 'values'] as const)
      if (!parts.includes(part)) {
        next[part].codes.set(old[part].codes);
        next[part].scales.set(old[part].scales);
      }
    this.#storage = next;
    for (const [part, heads] of rows) for (const [g, x] of heads.entries()) this.write(part, g, 0, x);
    this.#store.release(old);
    this.#ledger.free(this.#name, held);
    const more = this.liveBytes - live;
    if (more > 0) this.#ledger.use(this.#name, more);
    else this.#ledger.release(this.#name, -more);
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
