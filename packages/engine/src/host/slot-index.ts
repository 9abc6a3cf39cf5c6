import type { Store } from '../cache/storage.ts';
import type { Ledger } from '../ledger.ts';

/**
 * What a loop keeps about a layer's keys, f32 `[G, entries, numbers]`: an entry for every `slots` slots, extended as
 * slots are added and made again once they move. Counted as memory under `index`.
 */
export class SlotIndex {
  readonly #heads: number;
  readonly #slots: number;
  readonly #numbers: number;
  readonly #ledger: Ledger;
  readonly #store: Store;
  /** Slots that the loop has seen of each KV head, u32. */
  readonly known: Float32Array;
  #data: Float32Array = new Float32Array(0);
  #entries = 0;

  constructor(heads: number, slots: number, numbers: number, ledger: Ledger, store: Store) {
    [this.#heads, this.#slots, this.#numbers, this.#ledger, this.#store] = [heads, slots, numbers, ledger, store];
    this.known = store.createNumbers(heads);
  }

  get data(): Float32Array {
    return this.#data;
  }
  /** Bytes of a KV head. */
  get headBytes(): number {
    return 4 * this.#entries * this.#numbers;
  }

  /** Makes room for this many slots. */
  grow(slots: number): void {
    const need = Math.ceil(slots / this.#slots);
    if (need <= this.#entries) return;
    const before = this.#data,
      [old, entries] = [this.#entries, Math.max(need, Math.floor(1.25 * this.#entries))],
      data = this.#store.createNumbers(this.#heads * entries * this.#numbers);
    this.#ledger.allocate('index', data.byteLength);
    this.#ledger.use('index', data.byteLength);
    for (let g = 0; g < this.#heads; g++)
      data.set(before.subarray(g * old * this.#numbers, (g + 1) * old * this.#numbers), g * entries * this.#numbers);
    [this.#data, this.#entries] = [data, entries];
    this.#free(before);
  }

  /** Forgets the slots: they have moved. */
  clear(): void {
    this.known.fill(0);
  }

  destroy(): void {
    this.#free(this.#data);
    this.#store.releaseNumbers(this.known);
    [this.#data, this.#entries] = [new Float32Array(0), 0];
  }

  #free(numbers: Float32Array): void {
    this.#ledger.release('index', numbers.byteLength);
    this.#ledger.free('index', numbers.byteLength);
    this.#store.releaseNumbers(numbers);
  }
}
