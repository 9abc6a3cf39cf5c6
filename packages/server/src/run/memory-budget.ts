import type { PrefixStore } from '@kv/models';

/**
 * Share of the limit reserved for requests rather than caches. Caches may not use it, since an engine's heap never
 * shrinks.
 */
const REQUESTS = 1 / 8;

/**
 * The server's memory budget: reservations of sequences, with kept prefixes in whatever they leave free, and separately
 * reservations of requests for their text and unread events.
 */
export class MemoryBudget {
  /** Maximum bytes of caches. Requests have `requestLimit` in addition. */
  readonly limit: number;
  readonly requestLimit: number;
  /** Kept prefixes, which use the bytes that no sequence has reserved. */
  prefixes: Pick<PrefixStore, 'bytes' | 'shrink'> = { bytes: 0, shrink: () => {} };
  #taken = 0;
  #requests = 0;
  #peak = 0;

  constructor(limit: number) {
    this.requestLimit = Math.floor(limit * REQUESTS);
    this.limit = limit - this.requestLimit;
  }

  /** Bytes reserved by sequences now. */
  get taken(): number {
    return this.#taken;
  }
  /** Bytes reserved by requests now. */
  get requests(): number {
    return this.#requests;
  }
  /** Highest sum of reservations and kept prefixes so far. */
  get peak(): number {
    return this.#peak;
  }
  /** Bytes that no sequence has reserved; prefixes may occupy them. */
  get free(): number {
    return this.limit - this.#taken;
  }

  /** Reserves `bytes` for a sequence if they are free, dropping prefixes to make room. Returns whether it did. */
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

  /** Reserves `bytes` for a request if they are free. Returns whether it did. */
  takeRequest(bytes: number): boolean {
    if (this.#requests + bytes > this.requestLimit) return false;
    this.#requests += bytes;
    this.note();
    return true;
  }
  giveRequest(bytes: number): void {
    this.#requests -= bytes;
  }

  /** Updates `peak`; call it after prefixes have grown. */
  note(): void {
    this.#peak = Math.max(this.#peak, this.#taken + this.#requests + this.prefixes.bytes);
  }
}
