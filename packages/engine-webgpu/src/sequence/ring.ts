import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { countBelow } from '@kv/core/shared';
import type { HeadLayout, LayerSnapshot, SlotReader } from '@kv/engine';
import type { AttentionResult } from '../attention.ts';
import { encodeSlots } from '../operations.ts';
import { roomFor, type DeviceScope } from './device-scope.ts';
import { joinHeads } from './joined-heads.ts';
import { rotateRows, type Rotations } from './rotate-rows.ts';

/** The queries that one of the layers that read the same slots has left. */
interface ReaderQueries {
  /** Places of its heads among those of all readers. */
  readonly rows: Uint32Array;
  /** `[H, c, d]` and `[H, c]`, for capacity c queries */
  q: Tensor;
  lse: Tensor;
  seen: number;
  /** Queries that attended, and the newest of them that saw what it would see now. */
  answered: number;
  valid: number;
}

/**
 * The last w queries over one layer's slots after rotation, `[H, c, d]` on the device for each layer that reads these
 * slots, their positions on the host, and the log-sum-exp `[H, c]` of their own attention. Token t is at t % w; capacity
 * c grows with the tokens up to w.
 */
export class DeviceRing {
  readonly window: number;
  readonly #readers: readonly ReaderQueries[];
  readonly #kvHeads: number;
  readonly #dim: number;
  readonly #heads: number;
  #positions = new Uint32Array(0);
  readonly #device: DeviceScope;
  /** Positions that the queries of all heads are rotated by, `[w, heads]`, once they are not the original ones. */
  #rotations: Uint32Array | undefined;

  /** @param readers places of the heads of each layer that reads the slots among those of all of them */
  constructor(
    window: number,
    readers: readonly Uint32Array[],
    { kvHeads, headDim }: Pick<HeadLayout, 'kvHeads' | 'headDim'>,
    device: DeviceScope,
  ) {
    const { commands } = device.scope;
    [this.window, this.#device] = [window, device];
    [this.#kvHeads, this.#dim] = [kvHeads, headDim];
    this.#heads = readers.reduce((sum, { length }) => sum + length, 0);
    this.#readers = readers.map((rows) => ({
      rows,
      q: commands.make([rows.length, 0, headDim]),
      lse: commands.make([rows.length, 0]),
      ...{ seen: 0, answered: 0, valid: 0 },
    }));
  }

  /** Returns the bytes of `count` queries. */
  #bytesOf(count: number): number {
    const H = this.#heads;
    return 4 * count * (H * this.#dim + 1 + (this.#rotations ? H : 0));
  }
  /** Queries that it holds. */
  get #count(): number {
    return Math.min(this.#seen, this.window);
  }
  /** Queries so far; between events every reader has as many. */
  get #seen(): number {
    return this.#readers[0].seen;
  }

  /**
   * Adds queries `[H, m, d]` of one reader at their positions, rotated by `rotations`. Only the last w are copied.
   * @param reader whose they are @defaultValue the only one
   */
  push(q: Tensor, positions: Uint32Array, rotations: Uint32Array, reader?: SlotReader): void {
    const [own] = this.#of(reader),
      m = positions.length,
      count = Math.min(m, this.window),
      from = m - count;
    this.#grow(own.seen + m);
    encodeSlots(this.#device.scope.commands, q, own.q, count, from, (own.seen + from) % this.window);
    for (let i = from; i < m; i++) {
      const slot = (own.seen + i) % this.window;
      this.#positions[slot] = positions[i];
      this.#rotations?.fill(rotations[i], slot * this.#heads, (slot + 1) * this.#heads);
    }
    this.#see(own, own.seen + m);
  }

  /**
   * Records that the next m of a reader's pushed queries attended. `attended` holds the log-sum-exp of the last of them,
   * unless more than causality and the window hid slots.
   */
  answer(m: number, attended?: AttentionResult, reader?: SlotReader): void {
    const [own] = this.#of(reader);
    own.answered += m;
    own.valid = attended ? own.valid + m : 0;
    if (!attended) return;
    const { out, lseAt, last } = attended,
      count = Math.min(last, Math.max(0, this.window - (own.seen - own.answered))),
      shape = [own.rows.length, last];
    encodeSlots(
      this.#device.scope.commands,
      { ...out, shape },
      own.lse,
      count,
      last - count,
      (own.answered - count) % this.window,
      lseAt,
    );
  }

  /** Marks that slots were dropped or changed: queries would see something else now. */
  changed(): void {
    for (const own of this.#readers) own.valid = 0;
  }

  /**
   * Returns a copy of the last `count` queries' log-sum-exp over the current layer, `[H, count]`, oldest first;
   * undefined if one of them saw another.
   * @param reader whose queries @defaultValue those of all
   */
  lse(commands: Commands, count: number, reader?: SlotReader): Tensor | undefined {
    const some = this.#of(reader);
    if (some.some(({ valid, answered, seen }) => valid < count || answered !== seen)) return undefined;
    return this.#joined(commands, some, ({ lse, rows, seen }) => {
      const out = commands.make([rows.length, count]);
      encodeSlots(commands, lse, out, count, (seen - count) % this.window);
      return out;
    });
  }

  /**
   * Returns a copy of the last `count` queries (fewer if fewer were seen), oldest first: `[H, count, d]` and positions.
   * @param reader whose queries @defaultValue those of all
   */
  last(
    commands: Commands,
    count: number,
    reader?: SlotReader,
  ): { readonly q: Tensor; readonly positions: Uint32Array } {
    const some = this.#of(reader),
      [{ seen }] = some,
      w = this.window,
      have = Math.min(count, w, seen),
      first = (seen - have) % w;
    const q = this.#joined(commands, some, ({ rows, q: all }) => {
      const out = commands.make([rows.length, have, this.#dim]);
      encodeSlots(commands, all, out, have, first);
      return out;
    });
    return { q, positions: Uint32Array.from({ length: have }, (_, i) => this.#positions[(first + i) % w]) };
  }

  #of(reader: SlotReader | undefined): readonly ReaderQueries[] {
    return reader === undefined ? this.#readers : this.#readers.filter(({ rows }) => rows === reader.rows);
  }

  /** Returns what some readers have, joined to that of all heads where they are several. */
  #joined(commands: Commands, some: readonly ReaderQueries[], of: (own: ReaderQueries) => Tensor): Tensor {
    if (some.length === 1) return of(some[0]);
    let all: Tensor | undefined;
    for (const own of some) {
      const part = of(own);
      all ??= commands.make([this.#heads, ...part.shape.slice(1)]);
      joinHeads(commands, part, all, own, this.#kvHeads);
      if (part !== own.q) commands.free(part);
    }
    return all!; // there is a reader
  }

  /** Returns the positions that its queries are rotated by. */
  rotations(): Iterable<number> {
    return (this.#rotations ?? this.#positions).subarray(0, this.#count * (this.#rotations ? this.#heads : 1));
  }

  /**
   * Records that it follows a rebased cache, whose slots have the positions `kept [kvHead]`: in each head a query takes
   * the position of the last slot that it may see.
   */
  rebase(kept: readonly (readonly number[])[], next: number, turns: Rotations): void {
    const H = this.#heads,
      have = this.#count,
      rows = kept.map((row) => Uint32Array.from(row));
    const rotations = this.markRotations();
    for (const own of this.#readers) {
      const each = (of: (slot: number, h: number) => number): number[][] =>
        Array.from(own.rows, (h) => Array.from({ length: have }, (__, slot) => of(slot, h)));
      const to = each((slot, h) => {
        const row = rows[Math.floor((h * kept.length) / H)];
        return Math.max(0, next - row.length - 1 + countBelow(row, this.#positions[slot] + 1));
      });
      rotateRows(
        turns,
        { x: own.q, form: 'f32', d: this.#dim },
        each((slot, h) => rotations[slot * H + h]),
        to,
      );
      for (const [i, row] of to.entries()) for (const [slot, p] of row.entries()) rotations[slot * H + own.rows[i]] = p;
    }
    this.changed();
  }

  /** Returns the queries' own rotations, made from the original positions if there are none yet. */
  markRotations(): Uint32Array {
    if (this.#rotations) return this.#rotations;
    const { ledger } = this.#device,
      H = this.#heads;
    this.#rotations = new Uint32Array(this.#positions.length * H);
    for (const [slot, p] of this.#positions.entries()) this.#rotations.fill(p, slot * H, (slot + 1) * H);
    ledger.allocate('rings', this.#rotations.byteLength);
    ledger.use('rings', 4 * H * this.#count);
    return this.#rotations;
  }

  /** The most queries that the device binds. */
  get #most(): number {
    const rows = Math.max(...this.#readers.map((own) => own.rows.length));
    return Math.floor(this.#device.scope.commands.mostBytes / (4 * rows * this.#dim));
  }

  /** Checks that the device binds m more queries. @throws KvError if it does not */
  expectRoom(m: number): void {
    const need = Math.min(this.window, this.#seen + m);
    if (need > this.#most)
      throw new KvError(
        'cache',
        `must fit the last queries that a policy reads in a layer, ${this.#most} on this adapter, got ${need}: give the policy a smaller window`,
      );
  }

  /** Grows the capacity to `count` queries, at most w. Until the ring is full, token t lies at t. */
  #grow(count: number): void {
    const before = this.#positions.length,
      need = Math.min(this.window, count);
    if (need <= before) return;
    const { scope, ledger } = this.#device,
      room = Math.min(this.window, roomFor(need, before, this.#most)),
      larger = (x: Tensor): Tensor => {
        const [rows, , ...channels] = x.shape,
          next = scope.commands.make([rows, room, ...channels]);
        if (before > 0) encodeSlots(scope.commands, x, next, before);
        scope.commands.free(x);
        return next;
      };
    ledger.allocate('rings', this.#bytesOf(room));
    for (const own of this.#readers) [own.q, own.lse] = [larger(own.q), larger(own.lse)];
    const positions = this.#positions,
      rotations = this.#rotations;
    this.#positions = new Uint32Array(room);
    this.#positions.set(positions);
    if (rotations) {
      this.#rotations = new Uint32Array(room * this.#heads);
      this.#rotations.set(rotations);
    }
    ledger.free('rings', this.#bytesOf(before));
  }

  #see(own: ReaderQueries, seen: number): void {
    const before = this.#count;
    own.seen = seen;
    this.#device.ledger.use('rings', this.#bytesOf(this.#count - before));
  }

  /** Returns the queries of all heads in the order of storage, `[H, c, d]`; those not yet written are undefined. */
  queries(commands: Commands): Tensor {
    return this.#joined(commands, this.#readers, ({ q }) => q);
  }

  /** Returns its contents for a file, always with room for w queries, once `queries` have been read. */
  saved(queries: Float32Array): NonNullable<LayerSnapshot['ring']> {
    const { window: w } = this,
      [H, d] = [this.#heads, this.#dim],
      saved = {
        ...{ window: w, seen: this.#seen, queries: new Float32Array(w * H * d), positions: new Uint32Array(w) },
        rotations: this.#rotations && new Uint32Array(w * H),
      };
    saved.queries.set(swapped(queries, H, this.#positions.length, d, this.#count));
    saved.positions.set(this.#positions);
    saved.rotations?.set(this.#rotations!); // made where these are
    return saved;
  }

  /** Restores saved contents. */
  restore({ seen, queries, positions, rotations }: NonNullable<LayerSnapshot['ring']>): void {
    const count = Math.min(seen, this.window),
      [H, d] = [this.#heads, this.#dim],
      all = swapped(queries.subarray(0, count * H * d), count, H, d);
    this.#grow(count);
    for (const own of this.#readers) {
      this.#see(own, seen);
      [own.answered, own.valid] = [seen, 0];
      const room = this.#positions.length;
      for (const [i, h] of own.rows.entries())
        this.#device.scope.commands.write(own.q, all.subarray(h * count * d, (h + 1) * count * d), i * room * d);
    }
    this.#positions.set(positions.subarray(0, count));
    if (rotations) this.markRotations().set(rotations.subarray(0, count * H));
  }

  fork(device: DeviceScope): DeviceRing {
    const { window: w } = this,
      rows = this.#readers.map((own) => own.rows),
      copy = new DeviceRing(w, rows, { kvHeads: this.#kvHeads, headDim: this.#dim }, device);
    const held = this.#count;
    copy.#grow(held);
    for (const [i, { q, lse, seen, answered, valid }] of this.#readers.entries()) {
      const own = copy.#readers[i];
      if (held > 0)
        for (const [from, to] of [
          [q, own.q],
          [lse, own.lse],
        ] as const)
          encodeSlots(device.scope.commands, from, to, held);
      copy.#see(own, seen);
      [own.answered, own.valid] = [answered, valid];
    }
    copy.#positions.set(this.#positions.subarray(0, held));
    if (this.#rotations) copy.markRotations().set(this.#rotations.subarray(0, held * this.#heads));
    return copy;
  }

  /** Returns a ring for more queries, which takes those that this one holds. */
  widen(window: number): DeviceRing {
    const rows = this.#readers.map((own) => own.rows),
      wider = new DeviceRing(window, rows, { kvHeads: this.#kvHeads, headDim: this.#dim }, this.#device),
      H = this.#heads,
      held = this.#count,
      first = (this.#seen - held) % this.window;
    wider.#grow(held);
    for (const [i, { q }] of this.#readers.entries()) {
      const own = wider.#readers[i];
      if (held > 0) encodeSlots(this.#device.scope.commands, q, own.q, held, first);
      wider.#see(own, held);
      own.answered = held;
    }
    const rotations = this.#rotations && wider.markRotations();
    for (let i = 0; i < held; i++) {
      const slot = (first + i) % this.window;
      wider.#positions[i] = this.#positions[slot];
      rotations?.set(this.#rotations!.subarray(slot * H, (slot + 1) * H), i * H); // made where these are
    }
    this.destroy();
    return wider;
  }

  destroy(): void {
    const {
      scope: { commands },
      ledger,
    } = this.#device;
    ledger.release('rings', this.#bytesOf(this.#count));
    ledger.free('rings', this.#bytesOf(this.#positions.length));
    for (const { q, lse } of this.#readers) for (const x of [q, lse]) commands.free(x);
  }
}

/** Returns `[a, b, d]` as `[b, a, d]`; of b only the first `count`, zeros for the others. */
function swapped(x: Float32Array, a: number, b: number, d: number, count = b): Float32Array {
  const out = new Float32Array(x.length);
  for (let i = 0; i < a; i++)
    for (let j = 0; j < count; j++) out.set(x.subarray((i * b + j) * d, (i * b + j + 1) * d), (j * a + i) * d);
  return out;
}
