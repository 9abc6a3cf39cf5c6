import type { Ledger } from '../ledger.ts';

/** The last w post-RoPE queries of one layer and their positions, kept for events that look back. Counted as memory under `rings`. */
export class QueryRing {
  readonly window: number;
  readonly #heads: number;
  readonly #dim: number;
  readonly #ledger: Ledger;
  /** [w, H, d], token t at t % w. */
  #data: Float32Array;
  #positions: Uint32Array;
  #seen = 0;

  constructor(window: number, heads: number, dim: number, ledger: Ledger) {
    [this.window, this.#heads, this.#dim, this.#ledger] = [window, heads, dim, ledger];
    this.#data = new Float32Array(window * heads * dim);
    this.#positions = new Uint32Array(window);
    ledger.allocate('rings', this.bytes);
    ledger.use('rings', this.bytes);
  }

  get bytes(): number {
    return this.#data.byteLength + this.#positions.byteLength;
  }

  /** Adds queries `[H, m, d]` at their positions; those before the last w are not copied. */
  push(q: Float32Array, positions: Uint32Array): void {
    const m = positions.length, H = this.#heads, d = this.#dim, w = this.window;
    for (let i = Math.max(0, m - w); i < m; i++) {
      const slot = (this.#seen + i) % w;
      for (let h = 0; h < H; h++) this.#data.set(q.subarray((h * m + i) * d, (h * m + i + 1) * d), (slot * H + h) * d);
      this.#positions[slot] = positions[i]!;
    }
    this.#seen += m;
  }

  /** The last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions. */
  last(count: number): { readonly queries: Float32Array; readonly positions: Uint32Array; readonly count: number } {
    const H = this.#heads, d = this.#dim, w = this.window, have = Math.min(count, w, this.#seen);
    const queries = new Float32Array(H * have * d), positions = new Uint32Array(have);
    for (let i = 0; i < have; i++) {
      const slot = (this.#seen - have + i) % w;
      for (let h = 0; h < H; h++) queries.set(this.#data.subarray((slot * H + h) * d, (slot * H + h + 1) * d), (h * have + i) * d);
      positions[i] = this.#positions[slot]!;
    }
    return { queries, positions, count: have };
  }

  fork(ledger: Ledger): QueryRing {
    const copy = new QueryRing(this.window, this.#heads, this.#dim, ledger);
    copy.#data.set(this.#data);
    copy.#positions.set(this.#positions);
    copy.#seen = this.#seen;
    return copy;
  }

  destroy(): void {
    this.#ledger.release('rings', this.bytes);
    this.#ledger.free('rings', this.bytes);
    this.#data = new Float32Array(0);
    this.#positions = new Uint32Array(0);
  }
}
