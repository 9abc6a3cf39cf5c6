import type { PrefixStore } from '@kv/models';

/**
 * One budget of bytes: what is promised to requests and sequences, and the prefixes that are kept where there is room
 * beside that.
 */
export class Pool {
  /** Most bytes. */
  readonly limit: number;
  readonly #prefixes: Pick<PrefixStore, 'bytes' | 'shrink'>;
  #taken = 0;
  #peak = 0;

  constructor(limit: number, prefixes: Pick<PrefixStore, 'bytes' | 'shrink'>) {
    [this.limit, this.#prefixes] = [limit, prefixes];
  }

  /** Bytes promised now. */
  get taken(): number {
    return this.#taken;
  }
  /** Most bytes that were ever promised and kept together. */
  get peak(): number {
    return this.#peak;
  }
  /** Bytes that are not promised; prefixes may lie there. */
  get free(): number {
    return this.limit - this.#taken;
  }

  /** Promises so many bytes more, if there are, dropping prefixes where they are in the way. */
  take(bytes: number): boolean {
    if (bytes > this.free) return false;
    this.#prefixes.shrink(this.free - bytes);
    this.#taken += bytes;
    this.note();
    return true;
  }

  give(bytes: number): void {
    this.#taken -= bytes;
  }

  /** Prefixes have grown. */
  note(): void {
    this.#peak = Math.max(this.#peak, this.#taken + this.#prefixes.bytes);
  }
}
