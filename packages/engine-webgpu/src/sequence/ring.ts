import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { countBelow } from '@kv/core/shared';
import type { LayerSnapshot } from '@kv/engine';
import type { AttentionResult } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import type { DeviceScope } from './device-scope.ts';
import { rotateRows, type Rotations } from './rotate-rows.ts';

/**
 * The last w queries of one layer after rotation, `[H, w, d]` on the device, their positions on the host, and the
 * log-sum-exp `[H, w]` of their own attention. Token t is at t % w.
 */
export class DeviceRing {
  readonly window: number;
  readonly #tensor: Tensor;
  readonly #lse: Tensor;
  readonly #positions: Uint32Array;
  readonly #device: DeviceScope;
  /** Positions that the queries are rotated by, `[w, H]`, once they are not the original ones. */
  #rotations: Uint32Array | undefined;
  #seen = 0;
  /** Queries that attended, and the newest of them that saw what it would see now. */
  #answered = 0;
  #valid = 0;

  constructor(window: number, heads: number, dim: number, device: DeviceScope) {
    [this.window, this.#device, this.#positions] = [window, device, new Uint32Array(window)];
    this.#tensor = device.scope.commands.make([heads, window, dim]);
    this.#lse = device.scope.commands.make([heads, window]);
    device.ledger.allocate('rings', this.#bytes);
    device.ledger.use('rings', this.#bytes);
  }

  get #bytes(): number {
    return 4 * (this.#tensor.shape.reduce((a, b) => a * b, 1) + this.window + (this.#rotations?.length ?? 0));
  }
  get #heads(): number {
    return this.#tensor.shape[0];
  }

  /** Adds queries `[H, m, d]` at their positions, rotated by `rotations`. Only the last w are copied. */
  push(q: Tensor, positions: Uint32Array, rotations: Uint32Array): void {
    const m = positions.length,
      count = Math.min(m, this.window),
      from = m - count;
    encodeSlots(this.#device.scope.commands, q, this.#tensor, count, from, (this.#seen + from) % this.window);
    for (let i = from; i < m; i++) {
      const slot = (this.#seen + i) % this.window;
      this.#positions[slot] = positions[i];
      this.#rotations?.fill(rotations[i], slot * this.#heads, (slot + 1) * this.#heads);
    }
    this.#seen += m;
  }

  /**
   * Records that the next m of the pushed queries attended. `attended` holds the log-sum-exp of the last of them,
   * unless more than causality and the window hid slots.
   */
  answer(m: number, attended?: AttentionResult): void {
    this.#answered += m;
    this.#valid = attended ? this.#valid + m : 0;
    if (!attended) return;
    const { out, lseAt, last } = attended,
      count = Math.min(last, Math.max(0, this.window - (this.#seen - this.#answered))),
      shape = [this.#lse.shape[0], last];
    encodeSlots(
      this.#device.scope.commands,
      { ...out, shape },
      this.#lse,
      count,
      last - count,
      (this.#answered - count) % this.window,
      lseAt,
    );
  }

  /** Marks that slots were dropped or changed: queries would see something else now. */
  changed(): void {
    this.#valid = 0;
  }

  /**
   * Returns a copy of the last `count` queries' log-sum-exp over the current layer, `[H, count]`, oldest first;
   * undefined if one of them saw another.
   */
  lse(commands: Commands, count: number): Tensor | undefined {
    if (this.#valid < count || this.#answered !== this.#seen) return undefined;
    const out = commands.make([this.#lse.shape[0], count]);
    encodeSlots(commands, this.#lse, out, count, (this.#seen - count) % this.window);
    return out;
  }

  /**
   * Returns a copy of the last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions.
   */
  last(commands: Commands, count: number): { readonly q: Tensor; readonly positions: Uint32Array } {
    const [heads = 1, w = 1, dim = 1] = this.#tensor.shape,
      have = Math.min(count, w, this.#seen),
      first = (this.#seen - have) % w,
      q = commands.make([heads, have, dim]);
    encodeSlots(commands, this.#tensor, q, have, first);
    return { q, positions: Uint32Array.from({ length: have }, (_, i) => this.#positions[(first + i) % w]) };
  }

  /** Returns the positions that its queries are rotated by. */
  rotations(): Iterable<number> {
    return (this.#rotations ?? this.#positions).subarray(
      0,
      Math.min(this.#seen, this.window) * (this.#rotations ? this.#heads : 1),
    );
  }

  /**
   * Records that it follows a rebased cache, whose slots have the positions `kept [kvHead]`: in each head a query takes
   * the position of the last slot that it may see.
   */
  rebase(kept: readonly (readonly number[])[], next: number, turns: Rotations): void {
    const H = this.#heads,
      have = Math.min(this.#seen, this.window),
      rows = kept.map((row) => Uint32Array.from(row));
    const rotations = this.markRotations();
    const each = (of: (slot: number, h: number) => number): number[][] =>
      Array.from({ length: H }, (_, h) => Array.from({ length: have }, (__, slot) => of(slot, h)));
    const to = each((slot, h) => {
      const row = rows[Math.floor((h * kept.length) / H)];
      return Math.max(0, next - row.length - 1 + countBelow(row, this.#positions[slot] + 1));
    });
    rotateRows(
      turns,
      { x: this.#tensor, form: 'f32', d: this.#tensor.shape[2] },
      each((slot, h) => rotations[slot * H + h]),
      to,
    );
    for (const [h, row] of to.entries()) for (const [slot, p] of row.entries()) rotations[slot * H + h] = p;
    this.changed();
  }

  /** Returns the queries' own rotations, made from the original positions if there are none yet. */
  markRotations(): Uint32Array {
    if (this.#rotations) return this.#rotations;
    const { ledger } = this.#device,
      H = this.#heads,
      bytes = 4 * this.window * H;
    this.#rotations = new Uint32Array(this.window * H);
    for (const [slot, p] of this.#positions.entries()) this.#rotations.fill(p, slot * H, (slot + 1) * H);
    ledger.allocate('rings', bytes);
    ledger.use('rings', bytes);
    return this.#rotations;
  }

  /** Queries in the order of storage, `[H, w, d]`; those not yet written are undefined. */
  get queries(): Tensor {
    return this.#tensor;
  }

  /** Returns its contents for a file, once `queries` have been read. */
  saved(queries: Float32Array): NonNullable<LayerSnapshot['ring']> {
    const seen = this.#seen,
      [H = 1, w = 1, d = 1] = this.#tensor.shape;
    return {
      window: w,
      seen,
      queries: swapped(queries, H, w, d, Math.min(seen, w)),
      positions: this.#positions,
      rotations: this.#rotations,
    };
  }

  /** Restores saved contents. */
  restore({ seen, queries, positions, rotations }: NonNullable<LayerSnapshot['ring']>): void {
    const [H = 1, w = 1, d = 1] = this.#tensor.shape;
    [this.#seen, this.#answered, this.#valid] = [seen, seen, 0];
    this.#device.scope.commands.write(this.#tensor, swapped(queries, w, H, d), 0);
    this.#positions.set(positions);
    if (rotations) this.markRotations().set(rotations);
  }

  fork(device: DeviceScope): DeviceRing {
    const [heads = 1, w = 1, dim = 1] = this.#tensor.shape,
      copy = new DeviceRing(w, heads, dim, device);
    encodeSlots(device.scope.commands, this.#tensor, copy.#tensor, w);
    encodeSlots(device.scope.commands, this.#lse, copy.#lse, w);
    copy.#positions.set(this.#positions);
    if (this.#rotations) copy.markRotations().set(this.#rotations);
    [copy.#seen, copy.#answered, copy.#valid] = [this.#seen, this.#answered, this.#valid];
    return copy;
  }

  destroy(): void {
    const {
      scope: { commands },
      ledger,
    } = this.#device;
    ledger.release('rings', this.#bytes);
    ledger.free('rings', this.#bytes);
    for (const x of [this.#tensor, this.#lse]) commands.free(x);
  }
}

/** Returns `[a, b, d]` as `[b, a, d]`; of b only the first `count`, zeros for the others. */
function swapped(x: Float32Array, a: number, b: number, d: number, count = b): Float32Array {
  const out = new Float32Array(x.length);
  for (let i = 0; i < a; i++)
    for (let j = 0; j < count; j++) out.set(x.subarray((i * b + j) * d, (i * b + j + 1) * d), (j * a + i) * d);
  return out;
}
