import type { RotateVector } from '../cache/rotate.ts';
import { countBelow, range } from '@kv/core/shared';
import type { CacheView } from '../cache/layer-cache.ts';
import { hostStore, type Store } from '../cache/storage.ts';
import { toHeads } from '../decoder/heads.ts';
import type { SlotReader } from '../decoder/keeps.ts';
import type { Ledger } from '../ledger.ts';
import type { SavedRing } from '../memory/snapshot.ts';

/**
 * The last w post-RoPE queries of one layer and their positions, for events that look back; fewer while fewer were
 * seen. Counted as memory under `rings`.
 */
export class QueryRing {
  readonly window: number;
  readonly #heads: number;
  readonly #dim: number;
  readonly #ledger: Ledger;
  readonly #store: Store;
  /** `[H, c, d]`, capacity c queries, token t at t % w; all of them while they are fewer than w. */
  #data: Float32Array = new Float32Array(0);
  #positions = new Uint32Array(0);
  /** Positions that the queries are rotated by, `[w, H]`, once they are not the original ones. */
  #rotations: Uint32Array | undefined;
  #seen = 0;

  constructor(window: number, heads: number, dim: number, ledger: Ledger, store: Store = hostStore) {
    [this.window, this.#heads, this.#dim, this.#ledger, this.#store] = [window, heads, dim, ledger, store];
  }

  /** Returns the bytes of `count` queries. */
  #bytesOf(count: number): number {
    const H = this.#heads;
    return 4 * count * (H * this.#dim + 1 + (this.#rotations ? H : 0));
  }

  /**
   * Adds queries `[H, m, d]` at their positions, rotated by `shift` less. Only the last w are copied.
   * @param reader where q is of some of the heads: their places, and whether they are the first of these tokens
   */
  push(q: Float32Array, positions: Uint32Array, shift = 0, reader?: SlotReader): void {
    const m = positions.length,
      H = this.#heads,
      d = this.#dim,
      w = this.window,
      begins = reader?.first !== false,
      before = begins ? this.#seen : this.#seen - m;
    if (begins) this.#grow(Math.min(w, before + m));
    const first = Math.max(0, m - w),
      room = this.#positions.length,
      rows = reader?.rows ?? range(0, H);
    for (const [slot, count, i] of this.#stretches(before + first, m - first))
      rows.forEach((row, h) => {
        const from = (h * m + first + i) * d;
        this.#data.set(q.subarray(from, from + count * d), (row * room + slot) * d);
      });
    if (!begins) return;
    for (let i = first; i < m; i++) {
      const slot = (this.#seen + i) % w;
      this.#positions[slot] = positions[i];
      this.#rotations?.fill(positions[i] - shift, slot * H, (slot + 1) * H);
    }
    this.#see(this.#seen + m);
  }

  /**
   * Returns the contiguous stretches that hold the queries of `count` tokens: slot, number of queries, and number
   * before them.
   */
  #stretches(token: number, count: number): readonly (readonly [slot: number, count: number, before: number])[] {
    const slot = token % this.window,
      whole = Math.min(count, this.window - slot);
    return count > whole
      ? [
          [slot, whole, 0],
          [0, count - whole, whole],
        ]
      : [[slot, whole, 0]];
  }

  /** Returns the last `count` queries where they lie, `[H, room, d]`: query i at (first + i) % room. */
  places(count: number): {
    readonly queries: Float32Array;
    readonly room: number;
    readonly first: number;
    readonly count: number;
  } {
    const have = this.count(count);
    return { queries: this.#data, room: this.#positions.length, first: (this.#seen - have) % this.window, count: have };
  }

  /** Returns how many queries `last(count)` returns. */
  count(count: number): number {
    return Math.min(count, this.window, this.#seen);
  }

  /** Counts `count` queries as seen without storing them, because enough to fill the ring follow. */
  skip(count: number): void {
    if (count === 0) return;
    this.#grow(Math.min(this.window, this.#seen + count));
    this.#see(this.#seen + count);
  }

  /**
   * Returns the last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions. Valid
   * until the next are added.
   */
  last(count: number): { readonly queries: Float32Array; readonly positions: Uint32Array; readonly count: number } {
    const H = this.#heads,
      d = this.#dim,
      room = this.#positions.length,
      have = this.count(count);
    if (have === room && this.#seen % room === 0)
      return { queries: this.#data, positions: this.#positions, count: have };
    const queries = new Float32Array(H * have * d),
      positions = new Uint32Array(have);
    for (const [slot, some, i] of this.#stretches(this.#seen - have, have)) {
      for (let h = 0; h < H; h++) {
        const from = (h * room + slot) * d;
        queries.set(this.#data.subarray(from, from + some * d), (h * have + i) * d);
      }
      positions.set(this.#positions.subarray(slot, slot + some), i);
    }
    return { queries, positions, count: have };
  }

  /** Returns the positions that its queries are rotated by. */
  rotations(): Iterable<number> {
    return (this.#rotations ?? this.#positions).subarray(
      0,
      Math.min(this.#seen, this.window) * (this.#rotations ? this.#heads : 1),
    );
  }

  /** Follows a rebased cache: in each head a query takes the position of the last slot that it may see. */
  rebase({ heads: G, positions, capacity, lengths }: CacheView, next: number, rotate: RotateVector): void {
    const H = this.#heads,
      d = this.#dim;
    const rotations = this.markRotations(),
      room = this.#positions.length;
    for (let slot = 0; slot < Math.min(this.#seen, this.window); slot++)
      for (let h = 0; h < H; h++) {
        const g = Math.floor((h * G) / H),
          n = lengths[g],
          at = slot * H + h;
        const to = Math.max(
          0,
          next - n - 1 + countBelow(positions.subarray(g * capacity, g * capacity + n), this.#positions[slot] + 1),
        );
        rotate(this.#data, (h * room + slot) * d, rotations[at], to);
        rotations[at] = to;
      }
  }

  /** Returns its contents for a file, always with room for w queries. */
  saved(): SavedRing {
    const { window: w } = this,
      queries = new Float32Array(w * this.#heads * this.#dim),
      positions = new Uint32Array(w),
      rotations = this.#rotations && new Uint32Array(w * this.#heads);
    queries.set(toHeads(this.#data, this.#heads, this.#dim)); // `[H, w, d]` as `[w, H, d]`
    positions.set(this.#positions);
    rotations?.set(this.#rotations!); // made where these are
    return { seen: this.#seen, queries, positions, rotations };
  }

  /** Restores saved contents. */
  restore({ queries, ...saved }: SavedRing): void {
    const count = Math.min(saved.seen, this.window),
      H = this.#heads;
    this.#take({ ...saved, queries: toHeads(queries.subarray(0, count * H * this.#dim), count, this.#dim) }, count);
  }

  /** Restores contents whose queries are `[H, room, d]`. */
  #take({ seen, queries, positions, rotations }: SavedRing, room: number): void {
    const count = Math.min(seen, this.window);
    this.#grow(count);
    this.#see(seen);
    this.#put(queries, room, count);
    this.#positions.set(positions.subarray(0, count));
    if (rotations) this.markRotations().set(rotations.subarray(0, count * this.#heads));
  }

  /** Copies the first `count` queries of every head from `[H, room, d]`. */
  #put(queries: Float32Array, room: number, count: number): void {
    const d = this.#dim,
      own = this.#positions.length;
    for (let h = 0; h < this.#heads; h++)
      this.#data.set(queries.subarray(h * room * d, (h * room + count) * d), h * own * d);
  }

  /** Returns the queries' own rotations, made from the original positions if there are none yet. */
  markRotations(): Uint32Array {
    if (this.#rotations) return this.#rotations;
    const H = this.#heads;
    this.#rotations = Uint32Array.from(
      { length: this.#positions.length * H },
      (_, i) => this.#positions[Math.floor(i / H)],
    );
    this.#ledger.allocate('rings', this.#rotations.byteLength);
    this.#ledger.use('rings', 4 * H * this.count(this.window));
    return this.#rotations;
  }

  fork(ledger: Ledger): QueryRing {
    const copy = new QueryRing(this.window, this.#heads, this.#dim, ledger, this.#store);
    copy.#take(
      { seen: this.#seen, queries: this.#data, positions: this.#positions, rotations: this.#rotations },
      this.#positions.length,
    );
    return copy;
  }

  /** Returns a ring for more queries, which takes those that this one holds. */
  widen(window: number): QueryRing {
    const H = this.#heads,
      wider = new QueryRing(window, H, this.#dim, this.#ledger, this.#store),
      { queries, positions, count } = this.last(this.window),
      rotations = this.#rotations && new Uint32Array(count * H);
    if (rotations)
      for (const [slot, some, i] of this.#stretches(this.#seen - count, count))
        rotations.set(this.#rotations!.subarray(slot * H, (slot + some) * H), i * H);
    wider.#take({ seen: count, queries, positions, rotations }, count);
    this.destroy();
    return wider;
  }

  /** Grows the capacity to `count` queries, at most w. Until the ring is full, token t lies at t. */
  #grow(count: number): void {
    const before = this.#positions.length;
    if (count <= before) return;
    const room = Math.min(this.window, Math.max(count, Math.floor(1.25 * before))),
      data = this.#store.createNumbers(room * this.#heads * this.#dim),
      positions = new Uint32Array(room),
      rotations = this.#rotations && new Uint32Array(room * this.#heads),
      queries = this.#data;
    this.#ledger.allocate('rings', this.#bytesOf(room));
    positions.set(this.#positions);
    rotations?.set(this.#rotations!); // made where these are
    [this.#data, this.#positions, this.#rotations] = [data, positions, rotations];
    this.#put(queries, before, before);
    this.#store.releaseNumbers(queries);
    this.#ledger.free('rings', this.#bytesOf(before));
  }

  #see(seen: number): void {
    const before = this.count(this.window);
    this.#seen = seen;
    this.#ledger.use('rings', this.#bytesOf(this.count(this.window) - before));
  }

  destroy(): void {
    this.#ledger.release('rings', this.#bytesOf(this.count(this.window)));
    this.#ledger.free('rings', this.#bytesOf(this.#positions.length));
    this.#seen = 0;
    this.#store.releaseNumbers(this.#data);
    this.#data = new Float32Array(0);
    this.#positions = new Uint32Array(0);
    this.#rotations = undefined;
  }
}
