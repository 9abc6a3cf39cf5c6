import type { PrefixStore } from '@kv/models';

/** The part of all bytes that requests may hold beside their caches. Caches leave it free, since what an engine's heap grew to stays. */
const REQUESTS = 1 / 8;

/**
 * One budget of bytes: what is promised to sequences, with the prefixes that are kept where there is room beside that,
 * and what is promised to requests for their text and what is said to them.
 */
export class MemoryBudget {
  /** Most bytes of caches, and of requests beside them. */
  readonly limit: number;
  readonly requestLimit: number;
  /** What lies where nothing is promised to sequences. */
  prefixes: Pick<PrefixStore, 'bytes' | 'shrink'> = { bytes: 0, shrink: () => {} };
  #taken = 0;
  #requests = 0;
  #peak = 0;

  constructor(limit: number) {
    this.requestLimit = Math.floor(limit * REQUESTS);
    this.limit = limit - this.requestLimit;
  }

  /** Bytes promised to sequences now. */
  get taken(): number {
    return this.#taken;
  }
  /** Bytes promised to requests now. */
  get requests(): number {
    return this.#requests;
  }
  /** Most bytes that were ever promised and kept together. */
  get peak(): number {
    return this.#peak;
  }
  /** Bytes that are not promised to sequences; prefixes may lie there. */
  get free(): number {
    return this.limit - this.#taken;
  }

  /** Promises a sequence so many bytes more, if there are, dropping prefixes where they are in the way. */
  take(bytes: number): boolean {
    if (bytes > this.free) return false;
    this.prefixes.shrink(this.free - bytes);
    this.#taken += bytes;
    this.note();
    return true;
  }
  give(bytes: number): void {
    this.#taken -= bytes;
  }

  /** Promises a request so many bytes, if there are. */
  takeRequest(bytes: number): boolean {
    if (this.#requests + bytes > this.requestLimit) return false;
    this.#requests += bytes;
    this.note();
    return true;
  }
  giveRequest(bytes: number): void {
    this.#requests -= bytes;
  }

  /** Prefixes have grown. */
  note(): void {
    this.#peak = Math.max(this.#peak, this.#taken + this.#requests + this.prefixes.bytes);
  }
}
