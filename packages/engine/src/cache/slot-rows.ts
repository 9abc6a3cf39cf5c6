import { sumOf } from '@kv/core/shared';
import { hostStore, type Store } from './storage.ts';
import type { Ledger } from '../ledger.ts';

/**
 * f32 `[rows, n]` kept with a layer's cache: one entry per slot, compacted with the cache, grown with `init`. Row r
 * follows KV head floor(r * G / rows). Counted in the ledger under `name`.
 */
export class SlotRows {
  readonly rows: number;
  readonly #init: number;
  readonly #name: string;
  readonly #ledger: Ledger;
  readonly #store: Store;
  #stride = 0;
  #length = 0;
  /** Numbers that count as used. */
  #used = 0;
  #data: Float32Array = new Float32Array(0);

  constructor(rows: number, init: number, name: string, ledger: Ledger, store: Store = hostStore) {
    [this.rows, this.#init, this.#name, this.#ledger, this.#store] = [rows, init, name, ledger, store];
  }

  get data(): Float32Array {
    return this.#data;
  }
  /** Distance between rows. */
  get stride(): number {
    return this.#stride;
  }

  /** Makes room for `length` slots. */
  reserve(length: number): void {
    if (length > this.#stride) {
      const stride = Math.max(length, Math.floor(this.#stride * 1.25));
      const data = this.#store.createNumbers(this.rows * stride);
      if (this.#init !== 0) data.fill(this.#init);
      this.#ledger.allocate(this.#name, data.byteLength);
      for (let r = 0; r < this.rows; r++)
        data.set(this.#data.subarray(r * this.#stride, r * this.#stride + this.#length), r * stride);
      this.#ledger.free(this.#name, this.#data.byteLength);
      this.#store.releaseNumbers(this.#data);
      [this.#data, this.#stride] = [data, stride];
    }
  }

  /** Grows to `length` slots, the new ones at `init`. */
  grow(length: number): void {
    this.reserve(length);
    this.#count(length, this.#used + this.rows * (length - this.#length));
  }

  /** Counts the slots of each head alone, `[kvHead]`, one row each: not those of the longest in all of them. */
  settle(lengths: ArrayLike<number>): void {
    this.#count(this.#length, sumOf(Array.from(lengths)));
  }

  /** Sets every entry to `value`. */
  fill(value: number): void {
    this.#data.fill(value);
  }

  /** Writes dense `[rows, slots]` values. @param rows which rows these are @defaultValue all, in order */
  write(values: ArrayLike<number>, slots: number, rows?: Uint32Array): void {
    for (let r = 0; r < (rows?.length ?? this.rows); r++)
      for (let i = 0; i < slots; i++) this.#data[(rows?.[r] ?? r) * this.#stride + i] = values[r * slots + i];
  }

  /** Returns the first `slots` entries of every row, dense `[rows, slots]`. */
  dense(slots: number): Float32Array {
    const out = new Float32Array(this.rows * slots);
    for (let r = 0; r < this.rows; r++)
      out.set(this.#data.subarray(r * this.#stride, r * this.#stride + slots), r * slots);
    return out;
  }

  /** Keeps these slots of each KV head. */
  keep(kept: readonly Uint32Array[]): void {
    let longest = 0;
    for (let r = 0; r < this.rows; r++) {
      const slots = kept[Math.floor((r * kept.length) / this.rows)],
        at = r * this.#stride;
      slots.forEach((slot, i) => {
        this.#data[at + i] = this.#data[at + slot];
      });
      this.#data.fill(this.#init, at + slots.length, at + this.#stride);
      longest = Math.max(longest, slots.length);
    }
    this.#count(longest);
  }

  fork(ledger: Ledger): SlotRows {
    const copy = new SlotRows(this.rows, this.#init, this.#name, ledger, this.#store);
    copy.grow(this.#length);
    copy.#count(this.#length, this.#used);
    for (let r = 0; r < this.rows; r++)
      copy.#data.set(this.#data.subarray(r * this.#stride, r * this.#stride + this.#length), r * copy.#stride);
    return copy;
  }

  destroy(): void {
    this.#count(0);
    this.#ledger.free(this.#name, this.#data.byteLength);
    this.#store.releaseNumbers(this.#data);
    [this.#data, this.#stride] = [new Float32Array(0), 0];
  }

  #count(length: number, used: number = this.rows * length): void {
    const change = 4 * (used - this.#used);
    if (change > 0) this.#ledger.use(this.#name, change);
    else this.#ledger.release(this.#name, -change);
    [this.#length, this.#used] = [length, used];
  }
}
