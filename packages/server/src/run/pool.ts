/** One budget of bytes for all sequences and prefixes. */
export class Pool {
  /** Most bytes. */
  readonly limit: number;
  #taken = 0;
  #peak = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes promised now. */
  get taken(): number {
    return this.#taken;
  }
  /** Most bytes that were ever promised. */
  get peak(): number {
    return this.#peak;
  }
  get free(): number {
    return this.limit - this.#taken;
  }

  /** Promises so many bytes more, if there are. */
  take(bytes: number): boolean {
    if (bytes > this.free) return false;
    this.#taken += bytes;
    this.#peak = Math.max(this.#peak, this.#taken);
    return true;
  }

  give(bytes: number): void {
    this.#taken -= bytes;
  }
}
