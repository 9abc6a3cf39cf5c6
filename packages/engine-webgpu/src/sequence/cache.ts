import { KvError, type Tensor } from '@kv/core';
import { cacheForms, inForm, plainRows, slotBytes } from '@kv/engine';
import type { CacheForm, CachePart, LayerSnapshot } from '@kv/engine';
import { encodeAppend, encodeCompact, encodeSlots, type DeviceRows, type DeviceSlots } from '../operations.ts';
import { rowType, rowWords } from '../wgsl/stored-rows.ts';
import { toWords } from './row-words.ts';
import { SlotTable } from './slot-table.ts';
import { forRows, type DeviceScope, type SlotSelection } from './device-scope.ts';
import { rotateRows, type Rotations } from './rotate-rows.ts';

type Slots = Pick<DeviceSlots, 'keys' | 'values' | 'positions'>;

/**
 * Keys, values and positions of one layer on the device, each head at its own length. Storage is replaced, never
 * resized, when the host's would be. Lengths and positions are also known on the host, which chose them.
 *
 * More than 15 members: each is a step on the one storage, whose lengths all of them must keep.
 */
export class DeviceCache implements DeviceSlots {
  readonly heads: number;
  readonly headDim: number;
  readonly form: CacheForm;
  capacity = 0;
  keys: Tensor;
  values: Tensor;
  positions: Tensor;
  /** u32 `[G]`, and the buffer that receives the next lengths. */
  lengths: Tensor;
  #next: Tensor;
  /** Slots in use, `[kvHead]`. */
  counts: readonly number[];
  /** Positions of the slots, and those that their keys are rotated by once `rebase` has moved them. */
  #held: SlotTable;
  #rotated: SlotTable | undefined;
  readonly #device: DeviceScope;

  constructor(heads: number, headDim: number, device: DeviceScope, form: CacheForm) {
    [this.heads, this.headDim, this.form, this.#device] = [heads, headDim, form, device];
    [this.keys, this.values, this.positions] = this.#storage(0);
    [this.lengths, this.#next] = [
      device.scope.commands.upload(new Uint32Array(heads), [heads]),
      device.scope.commands.make([heads], 'u32'),
    ];
    this.counts = Array<number>(heads).fill(0);
    this.#held = new SlotTable(this.counts.map(() => []));
  }

  /** The longest head's slots. */
  get length(): number {
    return Math.max(...this.counts);
  }
  get #slotBytes(): number {
    return slotBytes(this.form, this.headDim, this.#rotated !== undefined);
  }
  get #liveBytes(): number {
    return this.#slotBytes * this.counts.reduce((a, b) => a + b, 0);
  }

  /** Whether all heads hold the same number of slots. */
  get even(): boolean {
    return this.counts.every((n) => n === this.counts[0]);
  }

  /** Returns the rows of keys or values of the longest head's slots. */
  rows(part: CachePart): DeviceRows {
    const { form, headDim: d, length: slots } = this;
    return { form: cacheForms[form][part], rows: this[part], d, slots };
  }
  /** Returns the positions in the cache, `[kvHead]`, ascending. */
  kept(): number[][] {
    return this.#held.rows();
  }
  /** Returns how many slots of each head, its first ones, come before this position. */
  before(position: number): number[] {
    return this.#held.below(position);
  }
  /** Returns the positions that the keys are rotated by, `[kvHead]`: the original ones unless rebased. */
  rotations(): number[][] {
    return (this.#rotated ?? this.#held).rows();
  }
  get rebased(): boolean {
    return this.#rotated !== undefined;
  }

  /** Makes room for m more slots; storage that is too small grows by at least a quarter. */
  grow(m: number): void {
    const need = this.length + m;
    if (need > this.capacity) this.#resize(Math.max(need, Math.floor(this.capacity * 1.25)));
  }

  /**
   * Adds the next m slots, which must fit, to every head: keys and values `[G, m, d]` at positions `added [m]`, `at` on
   * the host, rotated by `rotations`.
   */
  append(k: Tensor, v: Tensor, added: Tensor, at: Iterable<number>, rotations: Iterable<number>): void {
    this.write(k, v, added);
    this.join(added.shape[0], at, rotations);
  }

  /** Records the slots of `append`; they count once they `join`. */
  write(k: Tensor, v: Tensor, added: Tensor): void {
    encodeAppend(this.#device.scope.commands, this, k, v, added, this.#next);
    [this.lengths, this.#next] = [this.#next, this.lengths];
  }

  /** Counts the oldest m written slots that do not count yet, at these positions. */
  join(m: number, at: Iterable<number>, rotations: Iterable<number>): void {
    this.counts = this.counts.map((n) => n + m);
    this.#held.join(at);
    this.#rotated?.join(rotations);
    this.#device.ledger.use('cache', this.#slotBytes * this.heads * m);
  }

  /** Discards written slots that do not count yet. */
  rewind(): void {
    this.#device.scope.commands.write(this.lengths, Uint32Array.from(this.counts), 0);
  }

  /**
   * Records that only these slots of each head are kept: at most `counts`, until `confirm` says which. They move in
   * place, or, from storage more than twice as large as then needed, into one that fits.
   */
  keep(selection: SlotSelection, counts: readonly number[]): void {
    const { commands } = this.#device.scope,
      { kept, counts: valid } = forRows(selection, this.heads),
      most = Math.max(...counts);
    const into = (to?: Slots): void => {
      for (const name of ['keys', 'values', 'positions'] as const)
        encodeCompact(commands, this[name], kept, valid, { most, ...(to && { out: to[name] }) });
    };
    if (this.capacity <= 2 * most) into();
    encodeSlots(
      commands,
      { ...valid, shape: [1, valid.shape[0]] },
      { ...this.lengths, shape: [1, this.heads] },
      this.heads,
    );
    this.#count(counts, into);
  }

  /** Sets the slots that the last `keep` kept, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    for (const held of [this.#held, this.#rotated]) held?.keep(slots);
    this.#count(slots.map(({ length }) => length));
  }

  /**
   * Records that every head's slots move together: their rotations become consecutive and end before `next`. Original
   * positions stay.
   */
  rebase(next: number, turns: Rotations): void {
    const to = this.counts.map((n) => Array.from({ length: n }, (_, i) => next - n + i));
    rotateRows(turns, { x: this.keys, form: cacheForms[this.form].keys, d: this.headDim }, this.rotations(), to);
    this.#setRotations(to);
  }

  /** Fills an empty cache with saved slots, of any form, `lengths[g]` of head g. */
  restore(lengths: readonly number[], saved: LayerSnapshot['slots']): void {
    if (saved.records)
      throw new KvError(
        'cache',
        'holds slots at levels, which this engine cannot: expected a cache of one form, or a model on the CPU',
      );
    const { commands } = this.#device.scope,
      { keys, values, positions, rotations } = inForm(saved, this.form, this.headDim),
      rows = (of: Uint32Array): number[][] => lengths.map((n, g) => Array.from(of.subarray(start(g), start(g) + n))),
      start = (g: number): number => lengths.slice(0, g).reduce((a, b) => a + b, 0);
    if (rotations) this.#setRotations(rows(rotations));
    this.#resize(Math.max(...lengths));
    for (const [g, n] of lengths.entries()) {
      const [from, to] = [start(g), g * this.capacity];
      for (const [x, stored] of [
        [this.keys, keys],
        [this.values, values],
      ] as const)
        commands.write(x, toWords(plainRows(stored), this.headDim, from, n), to * x.shape[2]);
      commands.write(this.positions, positions.subarray(from, from + n), to);
    }
    commands.write(this.lengths, Uint32Array.from(lengths), 0);
    [this.counts, this.#held] = [lengths, new SlotTable(rows(positions))];
    this.#device.ledger.use('cache', this.#liveBytes);
  }

  /** Returns a copy of every head's first `upTo` slots. */
  fork(device: DeviceScope, upTo: number = Infinity): DeviceCache {
    const copy = new DeviceCache(this.heads, this.headDim, device, this.form),
      counts = this.counts.map((n) => Math.min(n, upTo));
    if (this.#rotated) copy.#setRotations(this.rotations().map((row, g) => row.slice(0, counts[g])));
    copy.#resize(Math.max(...counts));
    this.#copy(copy, copy.capacity);
    copy.counts = counts;
    device.scope.commands.write(copy.lengths, Uint32Array.from(counts), 0);
    copy.#held = new SlotTable(this.kept().map((row, g) => row.slice(0, counts[g])));
    device.ledger.use('cache', copy.#liveBytes);
    return copy;
  }

  /** Removes its bytes from the ledger; the memory is freed with the scope. */
  destroy(): void {
    this.#count(this.counts.map(() => 0));
  }

  /** Sets the slots' own rotations. */
  #setRotations(rotations: readonly (readonly number[])[]): void {
    const { ledger } = this.#device,
      [live, slot] = [this.#liveBytes, this.#slotBytes];
    this.#rotated = new SlotTable(rotations);
    ledger.allocate('cache', (this.#slotBytes - slot) * this.heads * this.capacity);
    ledger.use('cache', this.#liveBytes - live);
  }

  #storage(capacity: number): [keys: Tensor, values: Tensor, positions: Tensor] {
    const { commands } = this.#device.scope,
      { heads, headDim } = this,
      { keys, values } = cacheForms[this.form],
      [k, v] = [keys, values].map((form) =>
        commands.make([heads, capacity, rowWords(form, headDim)], rowType(form)),
      ) as [Tensor, Tensor];
    return [k, v, commands.make([heads, capacity], 'u32')];
  }

  /** Sets smaller lengths; `fill` moves the slots where storage is replaced. */
  #count(counts: readonly number[], fill?: (to: Slots) => void): void {
    const before = this.#liveBytes;
    this.counts = counts;
    this.#device.ledger.release('cache', before - this.#liveBytes);
    if (this.capacity > 2 * this.length) this.#resize(this.length, fill);
  }

  #copy(to: Slots, slots: number): void {
    const { commands } = this.#device.scope;
    encodeSlots(commands, this.keys, to.keys, slots);
    encodeSlots(commands, this.values, to.values, slots);
    encodeSlots(commands, this.positions, to.positions, slots);
  }

  #resize(capacity: number, fill: (to: Slots) => void = (to) => this.#copy(to, Math.min(this.length, capacity))): void {
    const {
        scope: { commands },
        ledger,
      } = this.#device,
      bytes = this.#slotBytes * this.heads,
      [keys, values, positions] = this.#storage(capacity);
    ledger.allocate('cache', bytes * capacity);
    fill({ keys, values, positions });
    for (const old of [this.keys, this.values, this.positions]) commands.free(old);
    ledger.free('cache', bytes * this.capacity);
    [this.keys, this.values, this.positions, this.capacity] = [keys, values, positions, capacity];
  }
}
