import { KvError } from '@kv/core';
import type { Ledger } from '../ledger.ts';

/**
 * What providers compute from hidden states, one number per token. Rows are kept only until an event's providers have
 * seen them. Counted as memory under `hidden`.
 */
export class HiddenNumbers {
  readonly #width: number;
  readonly #ledger: Ledger;
  readonly #made = new Map<string, Float32Array>();
  #rows: Float32Array[] = [];
  /** Position of the first token whose row is kept. */
  #from: number;

  /** @param from position of the first token that will be seen */
  constructor(from: number, width: number, ledger: Ledger) {
    [this.#from, this.#width, this.#ledger] = [from, width, ledger];
  }

  /** Adds the rows `[m, width]` of the next tokens. */
  push(rows: Float32Array): void {
    this.#rows.push(rows);
    this.#count(rows.byteLength);
  }

  /**
   * Returns the numbers of all tokens under this key, or undefined if some tokens passed unrecorded. @throws KvError
   * unless `fold` makes one number per row.
   */
  numbers(key: string, fold: (rows: Float32Array, width: number) => Float32Array): Float32Array | undefined {
    const before = this.#made.get(key) ?? new Float32Array(),
      width = this.#width,
      end = this.#from + this.#waiting;
    if (before.length === end) return before;
    if (before.length !== this.#from) return undefined;
    const all = new Float32Array(end);
    all.set(before);
    let at = before.length;
    for (const rows of this.#rows) {
      const more = fold(rows, width);
      if (more.length !== rows.length / width)
        throw new KvError(
          key,
          `expected one number for each of ${rows.length / width} hidden states, got ${more.length}`,
        );
      all.set(more, at);
      at += more.length;
    }
    this.#made.set(key, all);
    this.#count(all.byteLength - before.byteLength);
    return all;
  }

  /** Drops the kept rows, once every provider has seen them. */
  seen(): void {
    this.#from += this.#waiting;
    this.#count(-this.#rows.reduce((n, { byteLength }) => n + byteLength, 0));
    this.#rows = [];
  }

  fork(ledger: Ledger): HiddenNumbers {
    const copy = new HiddenNumbers(this.#from, this.#width, ledger);
    for (const rows of this.#rows) copy.push(rows);
    for (const [key, numbers] of this.#made) {
      copy.#made.set(key, numbers);
      copy.#count(numbers.byteLength);
    }
    return copy;
  }

  destroy(): void {
    this.seen();
    for (const { byteLength } of this.#made.values()) this.#count(-byteLength);
    this.#made.clear();
  }

  get #waiting(): number {
    return this.#rows.reduce((n, { length }) => n + length, 0) / this.#width;
  }

  #count(bytes: number): void {
    const [more, less] = [Math.max(0, bytes), Math.max(0, -bytes)];
    this.#ledger.allocate('hidden', more);
    this.#ledger.use('hidden', more);
    this.#ledger.release('hidden', less);
    this.#ledger.free('hidden', less);
  }
}
