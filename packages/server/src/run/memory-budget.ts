/**
 * Share of the limit reserved for requests rather than caches. Caches may not use it, since an engine's heap never
 * shrinks.
 */
const REQUESTS = 1 / 8;

/**
 * The server's memory budget: reservations of sequences, with kept conversations in whatever they leave free, and separately
 * reservations of requests for their text and unread events.
 */
export class MemoryBudget {
  /** Maximum bytes of caches. Requests have `requestLimit` in addition. */
  readonly limit: number;
  readonly requestLimit: number;
  /** Kept conversations, which use the bytes that no sequence has reserved. */
  conversations: { readonly bytes: number; shrink(most: number): void } = { bytes: 0, shrink: () => {} };
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
  /** Highest sum of reservations and kept conversations so far. */
  get peak(): number {
    return this.#peak;
  }
  /** Bytes that no sequence has reserved; kept conversations may occupy them. */
  get free(): number {
    return this.limit - this.#taken;
  }

  /** Reserves `bytes` for a sequence if they are free, dropping conversations to make room. Returns whether it did. */
  take(bytes: number): boolean {
    if (bytes > this.free) return false;
    this.conversations.shrink(this.free - bytes);
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

  /** Updates `peak`; call it after kept conversations have grown. */
  note(): void {
    this.#peak = Math.max(this.#peak, this.#taken + this.#requests + this.conversations.bytes);
  }
}
