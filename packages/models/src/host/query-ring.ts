import type { Turn } from '../cache/turn.ts';
import { countBelow } from '../attention/visible.ts';
import type { CacheView } from '../cache.ts';
import type { Ledger } from '../ledger.ts';
import type { SavedRing } from '../sequence/snapshot.ts';

/**
 * The last w post-RoPE queries of one layer and their positions, kept for events that look back. Counted as memory
 * under `rings`.
 */
export class QueryRing {
  readonly window: number;
  readonly #heads: number;
  readonly #dim: number;
  readonly #ledger: Ledger;
  /** [w, H, d], token t at t % w. */
  #data: Float32Array;
  #positions: Uint32Array;
  /** Positions that the queries are turned by `[w, H]`, once they are not the original ones. */
  #rotations: Uint32Array | undefined;
  #seen = 0;

  constructor(window: number, heads: number, dim: number, ledger: Ledger) {
    [this.window, this.#heads, this.#dim, this.#ledger] = [window, heads, dim, ledger];
    this.#data = new Float32Array(window * heads * dim);
    this.#positions = new Uint32Array(window);
    ledger.allocate('rings', this.bytes);
    ledger.use('rings', this.bytes);
  }

  get bytes(): number {
    return this.#data.byteLength + this.#positions.byteLength + (this.#rotations?.byteLength ?? 0);
  }

  /** Adds queries `[H, m, d]` at their positions, rotated by `shift` less; those before the last w are not copied. */
  push(q: Float32Array, positions: Uint32Array, shift = 0): void {
    const m = positions.length,
      H = this.#heads,
      d = this.#dim,
      w = this.window;
    for (let i = Math.max(0, m - w); i < m; i++) {
      const slot = (this.#seen + i) % w;
      for (let h = 0; h < H; h++) this.#data.set(q.subarray((h * m + i) * d, (h * m + i + 1) * d), (slot * H + h) * d);
      this.#positions[slot] = positions[i];
      this.#rotations?.fill(positions[i] - shift, slot * H, (slot + 1) * H);
    }
    this.#seen += m;
  }

  /** The last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions. */
  last(count: number): { readonly queries: Float32Array; readonly positions: Uint32Array; readonly count: number } {
    const H = this.#heads,
      d = this.#dim,
      w = this.window,
      have = Math.min(count, w, this.#seen);
    const queries = new Float32Array(H * have * d),
      positions = new Uint32Array(have);
    for (let i = 0; i < have; i++) {
      const slot = (this.#seen - have + i) % w;
      for (let h = 0; h < H; h++)
        queries.set(this.#data.subarray((slot * H + h) * d, (slot * H + h + 1) * d), (h * have + i) * d);
      positions[i] = this.#positions[slot];
    }
    return { queries, positions, count: have };
  }

  /** The positions that its queries are turned by. */
  rotations(): Iterable<number> {
    return (this.#rotations ?? this.#positions).subarray(
      0,
      Math.min(this.#seen, this.window) * (this.#rotations ? this.#heads : 1),
    );
  }

  /** Follows a rebased cache: in each head a query stands where the last slot that it may see stands. */
  rebase({ heads: G, positions, capacity, lengths }: CacheView, next: number, turn: Turn): void {
    const H = this.#heads,
      d = this.#dim;
    this.markRotations();
    for (let slot = 0; slot < Math.min(this.#seen, this.window); slot++)
      for (let h = 0; h < H; h++) {
        const g = Math.floor((h * G) / H),
          n = lengths[g],
          at = slot * H + h;
        const to = Math.max(
          0,
          next - n - 1 + countBelow(positions.subarray(g * capacity, g * capacity + n), this.#positions[slot] + 1),
        );
        turn(this.#data, at * d, this.#rotations![at], to);
        this.#rotations![at] = to;
      }
  }

  /** Its numbers as they lie, for a file. */
  saved(): SavedRing {
    return { seen: this.#seen, queries: this.#data, positions: this.#positions, rotations: this.#rotations };
  }

  /** Takes saved numbers back. */
  restore({ seen, queries, positions, rotations }: SavedRing): void {
    this.#seen = seen;
    this.#data.set(queries);
    this.#positions.set(positions);
    if (!rotations) return;
    this.markRotations();
    this.#rotations!.set(rotations);
  }

  /** From now on queries have rotations of their own, the original positions at first. */
  markRotations(): void {
    if (this.#rotations) return;
    const H = this.#heads;
    this.#rotations = Uint32Array.from({ length: this.window * H }, (_, i) => this.#positions[Math.floor(i / H)]);
    this.#ledger.allocate('rings', this.#rotations.byteLength);
    this.#ledger.use('rings', this.#rotations.byteLength);
  }

  fork(ledger: Ledger): QueryRing {
    const copy = new QueryRing(this.window, this.#heads, this.#dim, ledger);
    copy.restore(this.saved());
    return copy;
  }

  destroy(): void {
    this.#ledger.release('rings', this.bytes);
    this.#ledger.free('rings', this.bytes);
    this.#data = new Float32Array(0);
    this.#positions = new Uint32Array(0);
    this.#rotations = undefined;
  }
}
