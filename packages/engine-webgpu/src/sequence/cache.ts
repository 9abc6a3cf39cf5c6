import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import { range } from '@kv/core/shared';
import {
  inForm,
  levelOf,
  levelsOf,
  MOST_RECORD_BYTES,
  movedForm,
  plainRows,
  recordBytes,
  recordsOf,
  roundingAfter,
  slotBytes,
  storageOfRecords,
  storedForms,
  storeRecords,
  hostStore,
} from '@kv/engine';
import type { CacheForm, CachePart, LayerSnapshot, StorageForm } from '@kv/engine';
import {
  encodeAppend,
  encodeCompact,
  encodeConverted,
  encodeMovedRecords,
  encodeSlots,
  type DeviceRows,
  type DeviceSlots,
} from '../operations.ts';
import { NO_SLOT } from '../kernels/records.wgsl.ts';
import { deviceForms, rowWords, type DeviceForm } from '../wgsl/stored-rows.ts';
import {
  layRecords,
  makeRecords,
  makeRows,
  recordsIn,
  storageBytes,
  uploadRecords,
  type DeviceStorage,
} from './device-storage.ts';
import { fromWords, toWords } from './row-words.ts';
import { SlotTable } from './slot-table.ts';
import { forRows, roomFor, type DecidedSlots, type DeviceScope, type SlotSelection } from './device-scope.ts';
import { rotateRows, type Rotations } from './rotate-rows.ts';

/**
 * Keys, values and positions of one layer on the device, each head at its own length. Storage is replaced, never
 * resized, when the host's would be. Lengths and positions are also known on the host, which chose them.
 *
 * More than 15 members: each is a step on the one storage, whose lengths all of them must keep.
 */
export class DeviceCache implements DeviceSlots {
  readonly heads: number;
  readonly headDim: number;
  /** The form that it was created in. */
  readonly #own: CacheForm;
  #storage: DeviceStorage;
  /** u32 `[G]`, and the buffer that receives the next lengths. */
  lengths: Tensor;
  #next: Tensor;
  /** Slots in use, `[kvHead]`. */
  counts: readonly number[];
  /** Positions of the slots, and those that their keys are rotated by once `rebase` has moved them. */
  #held: SlotTable;
  #rotated: SlotTable | undefined;
  /** Levels of the slots, once one was demoted: they are records then. */
  #levels: SlotTable | undefined;
  /** What was rounded off before the slots were stored as they are. */
  #rounded: NonNullable<LayerSnapshot['slots']['rounded']> = { keys: 0, values: 0 };
  readonly #device: DeviceScope;

  constructor(heads: number, headDim: number, device: DeviceScope, form: CacheForm) {
    const { commands } = device.scope;
    [this.heads, this.headDim, this.#own, this.#device] = [heads, headDim, form, device];
    this.#storage = makeRows(commands, { heads, headDim, capacity: 0 }, form);
    [this.lengths, this.#next] = [commands.upload(new Uint32Array(heads), [heads]), commands.make([heads], 'u32')];
    this.counts = Array<number>(heads).fill(0);
    this.#held = new SlotTable(this.counts.map(() => []));
  }

  /** How its slots are stored: as it was created, until they are moved or demoted. */
  get form(): DeviceForm {
    return this.#storage.form;
  }
  get capacity(): number {
    return this.#storage.capacity;
  }
  get keys(): Tensor {
    return this.#storage.keys;
  }
  get values(): Tensor {
    return this.#storage.values;
  }
  get positions(): Tensor {
    return this.#storage.positions;
  }
  /** The longest head's slots. */
  get length(): number {
    return Math.max(...this.counts);
  }
  /** How new slots are stored. */
  get #newest(): StorageForm {
    return this.form === 'records' ? this.#own : this.form;
  }
  /** Bytes of a new slot; in a table too where slots have levels. */
  get #slotBytes(): number {
    return slotBytes(this.#newest, this.headDim, this.#rotated !== undefined) + (this.#levels ? 4 : 0);
  }
  /** The most slots in each head that the device binds, after those that it holds. */
  get #most(): number {
    const { mostBytes } = this.#device.scope.commands,
      { headDim: d, heads } = this;
    if (!this.#levels) {
      const { keys, values } = storedForms[this.#newest];
      return Math.floor(mostBytes / (4 * heads * Math.max(rowWords(keys, d), rowWords(values, d))));
    }
    const own = recordBytes(levelOf(this.#own), d),
      more = this.#levels
        .rows()
        .flat()
        .reduce((sum, level) => sum + recordBytes(level, d) - own, 0);
    return Math.floor((Math.min(mostBytes, MOST_RECORD_BYTES) - more) / (heads * (own + 4)));
  }
  get #liveBytes(): number {
    const slots = this.counts.reduce((a, b) => a + b, 0);
    if (!this.#levels) return this.#slotBytes * slots;
    const place = this.#rotated ? 12 : 8;
    return this.#levels
      .rows()
      .reduce((sum, row) => sum + row.reduce((all, level) => all + recordBytes(level, this.headDim), 0), place * slots);
  }

  /** Whether all heads hold the same number of slots. */
  get even(): boolean {
    return this.counts.every((n) => n === this.counts[0]);
  }

  /** Returns the rows of keys or values of the longest head's slots. */
  rows(part: CachePart): DeviceRows {
    const { form, headDim: d, length: slots } = this;
    return { form: deviceForms[form][part], rows: this[part], d, slots };
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
  /** Returns the levels of the slots, `[kvHead]`. */
  levels(): Uint8Array[] {
    const own = levelOf(this.#own);
    return this.#levels
      ? this.#levels.rows().map((row) => Uint8Array.from(row))
      : this.counts.map((n) => new Uint8Array(n).fill(own));
  }

  /** Checks that the device binds storage with room for m more slots. @throws KvError if it does not */
  expectRoom(m: number): void {
    const need = this.length + m;
    if (need <= this.capacity) return;
    const most = this.#most;
    if (need > most)
      throw new KvError(
        'cache',
        `must fit the storage of a layer, ${most} slots in each head on this adapter, got ${need}: give a policy a smaller budget, feed smaller blocks, or store slots in fewer bits ('cache')`,
      );
  }

  /** Makes room for m more slots; storage that is too small grows by at least a quarter, as far as the device binds it. */
  grow(m: number): void {
    const need = this.length + m;
    if (need > this.capacity) this.#resize(roomFor(need, this.capacity, this.#most));
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
    this.#levels?.join(Array<number>(m).fill(levelOf(this.#own)));
    this.#device.ledger.use('cache', this.#slotBytes * this.heads * m);
  }

  /** Discards written slots that do not count yet. */
  rewind(): void {
    this.#device.scope.commands.write(this.lengths, Uint32Array.from(this.counts), 0);
  }

  /**
   * Records that only these slots of each head are kept: at most `counts`, until `confirm` says which. They move in
   * place, or, from storage more than twice as large as then needed, into one that fits.
   * @param decided what they are, and their levels: needed where slots have levels of their own, or are given them
   */
  keep(selection: SlotSelection, counts: readonly number[], decided?: DecidedSlots): void {
    const { commands } = this.#device.scope,
      { kept, counts: valid } = forRows(selection, this.heads),
      most = Math.max(...counts),
      own = levelOf(this.#own);
    encodeSlots(
      commands,
      { ...valid, shape: [1, valid.shape[0]] },
      { ...this.lengths, shape: [1, this.heads] },
      this.heads,
    );
    if (decided && (this.#levels || decided.levels?.some((of) => of.some((level) => level > own)))) {
      this.#demote(decided, counts);
      return;
    }
    if (this.#levels) throw new TypeError('expected the slots that are kept, since records are laid out by the host');
    const into = (to: Pick<DeviceStorage, 'keys' | 'values' | 'positions'>, out: boolean): void => {
      for (const name of ['keys', 'values', 'positions'] as const)
        encodeCompact(commands, this[name], kept, valid, { most, ...(out && { out: to[name] }) });
    };
    if (this.capacity <= 2 * most) into(this, false);
    this.#count(counts, (to) => into(to, true));
  }

  /** Sets the slots that the last `keep` kept, `[kvHead]`. */
  confirm(slots: readonly Uint32Array[]): void {
    for (const held of [this.#held, this.#rotated]) held?.keep(slots);
    this.#count(slots.map(({ length }) => length));
  }

  /** Notes that keys or values are stored once more: what that rounds off is not read back to be counted. */
  roundAgain(part: CachePart): void {
    if (this.form !== 'f32') this.#rounded = { ...this.#rounded, [part]: Infinity };
  }

  /**
   * Records that every head's slots move together: their rotations become consecutive and end before `next`. Original
   * positions stay.
   */
  rebase(next: number, turns: Rotations): void {
    const to = this.counts.map((n) => Array.from({ length: n }, (_, i) => next - n + i));
    // keys that are rotated again and again are rounded less
    if (!this.#levels) this.#storeAs(movedForm(this.#newest));
    this.roundAgain('keys');
    rotateRows(turns, { x: this.keys, form: deviceForms[this.form].keys, d: this.headDim }, this.rotations(), to);
    this.#setRotations(to);
  }

  /** Fills an empty cache with saved slots, of any form, `lengths[g]` of head g. */
  restore(lengths: readonly number[], saved: LayerSnapshot['slots']): void {
    const { commands } = this.#device.scope,
      { headDim, heads } = this,
      starts = lengths.map((_, g) => lengths.slice(0, g).reduce((a, b) => a + b, 0)),
      rows = (of: ArrayLike<number>): number[][] =>
        lengths.map((n, g) => Array.from({ length: n }, (_, i) => of[starts[g] + i])),
      most = Math.max(...lengths);
    if (saved.rotations) this.#setRotations(rows(saved.rotations));
    if (saved.form === movedForm(this.#own)) this.#storeAs(saved.form);
    this.#rounded = roundingAfter(saved, this.#newest, headDim);
    if (saved.records) {
      const from = { ...saved, heads: 1, headDim, capacity: saved.positions.length },
        lists = lengths.map((n, g) => range(starts[g], n)),
        shape = { heads, headDim, capacity: most, form: this.#own, rebased: false },
        { records } = storeRecords(hostStore, { from, lists }, shape);
      this.#levels = new SlotTable(lengths.map((n, g) => [...levelsOf(records).subarray(g * most, g * most + n)]));
      this.#replace(uploadRecords(commands, shape, records));
    } else {
      this.#resize(most);
      const { keys, values } = inForm(saved, this.#newest, headDim);
      for (const [g, n] of lengths.entries())
        for (const [x, stored] of [
          [this.keys, keys],
          [this.values, values],
        ] as const)
          commands.write(x, toWords(plainRows(stored), headDim, starts[g], n), g * this.capacity * x.shape[2]);
    }
    for (const [g, n] of lengths.entries())
      commands.write(this.positions, saved.positions.subarray(starts[g], starts[g] + n), g * this.capacity);
    commands.write(this.lengths, Uint32Array.from(lengths), 0);
    [this.counts, this.#held] = [lengths, new SlotTable(rows(saved.positions))];
    this.#device.ledger.use('cache', this.#liveBytes);
  }

  /**
   * Returns the slots in use for a file.
   * @param read adds a tensor to those that are read, and returns a function for its numbers
   */
  saved(read: (x: Tensor) => () => Float32Array | Uint32Array): () => LayerSnapshot['slots'] {
    const { headDim, counts, capacity } = this,
      form = this.#newest,
      levels = this.#levels?.rows(),
      positions = Uint32Array.from(this.kept().flat()),
      rotations = this.#rotated && Uint32Array.from(this.rotations().flat()),
      rounded = this.#rounded;
    if (!levels) {
      const [keys, values] = [read(this.keys), read(this.values)];
      return () => ({
        form,
        keys: fromWords(keys(), storedForms[form].keys, headDim, counts),
        values: fromWords(values(), storedForms[form].values, headDim, counts),
        positions,
        rounded,
        ...(rotations && { rotations }),
      });
    }
    const words = read(this.#storage.tensors[0]);
    return () => {
      const bytes = recordsIn(words(), { capacity, headDim, levels }),
        all = levels.flat(),
        shape = { heads: 1, headDim, capacity: all.length, form };
      return {
        ...storageOfRecords(shape, recordsOf(all, bytes, headDim), positions, false),
        rounded,
        ...(rotations && { rotations }),
      };
    };
  }

  /** Returns a copy of every head's first `upTo` slots. */
  fork(device: DeviceScope, upTo: number = Infinity): DeviceCache {
    const copy = new DeviceCache(this.heads, this.headDim, device, this.#own),
      counts = this.counts.map((n) => Math.min(n, upTo)),
      first = (rows: readonly (readonly number[])[]): number[][] => rows.map((row, g) => row.slice(0, counts[g])),
      most = Math.max(...counts);
    if (this.#rotated) copy.#setRotations(first(this.rotations()));
    if (this.#levels) {
      copy.#levels = new SlotTable(first(this.#levels.rows()));
      copy.#takeRecords(
        this.#storage,
        counts.map((n) => range(0, n)),
        most,
      );
    } else {
      copy.#storeAs(this.#newest);
      copy.#resize(most);
      this.#copy(copy, most);
    }
    [copy.counts, copy.#rounded] = [counts, this.#rounded];
    device.scope.commands.write(copy.lengths, Uint32Array.from(counts), 0);
    copy.#held = new SlotTable(first(this.kept()));
    device.ledger.use('cache', copy.#liveBytes);
    return copy;
  }

  destroy(): void {
    const { scope, ledger } = this.#device;
    ledger.release('cache', this.#liveBytes);
    ledger.free('cache', this.#bytesOf(this.#storage));
    for (const tensor of [...this.#storage.tensors, this.lengths, this.#next]) scope.commands.free(tensor);
  }

  /** Sets the slots' own rotations. */
  #setRotations(rotations: readonly (readonly number[])[]): void {
    const { ledger } = this.#device,
      live = this.#liveBytes;
    if (!this.#rotated) ledger.allocate('cache', 4 * this.heads * this.capacity);
    this.#rotated = new SlotTable(rotations);
    ledger.use('cache', this.#liveBytes - live);
  }

  /** Keeps slots where some have levels of their own, or are given them. */
  #demote({ slots, levels }: DecidedSlots, counts: readonly number[]): void {
    const most = Math.max(...counts);
    if (most === 0) {
      // what is empty begins without levels again
      this.#count(counts);
      if (this.#rotated) this.#storeAs(movedForm(this.#own)); // as the other layers
      return;
    }
    this.#storeAs(this.#own);
    const before = this.levels(),
      live = this.#liveBytes;
    this.#levels = new SlotTable(
      slots.map((list, g) => Array.from(list, (slot, i) => Math.max(before[g][slot], levels?.[g][i] ?? 0))),
    );
    this.#takeRecords(this.#storage, slots, this.capacity > 2 * most ? most : this.capacity);
    this.counts = counts;
    this.#settle(live);
  }

  /** Replaces the storage by records, which these slots of each head move to. Their levels are set. */
  #takeRecords(from: DeviceStorage, slots: readonly Uint32Array[], capacity: number): void {
    const { heads, headDim } = this,
      { commands } = this.#device.scope,
      layout = layRecords(this.#levels!.rows(), { headDim, capacity }, levelOf(this.#own)), // set before
      sources = new Uint32Array(heads * capacity).fill(NO_SLOT);
    for (const [g, list] of slots.entries())
      sources.set(
        list.map((slot) => g * from.capacity + slot),
        g * capacity,
      );
    this.#replace(makeRecords(commands, { heads, headDim, capacity }, layout), (to) =>
      encodeMovedRecords(commands, from, { sources, entries: layout.entries }, to),
    );
  }

  /** Stores all slots, which are not records, in another form. */
  #storeAs(form: StorageForm): void {
    if (this.#levels || form === this.form) return;
    const { heads, headDim, capacity, length } = this,
      { commands } = this.#device.scope,
      live = this.#liveBytes,
      [before, after] = [storedForms[this.#newest], storedForms[form]];
    this.#replace(makeRows(commands, { heads, headDim, capacity }, form), (to) => {
      for (const part of ['keys', 'values'] as const)
        if (before[part] === after[part]) encodeSlots(commands, this[part], to[part], length);
        else encodeConverted(commands, { ...this.rows(part), form: before[part] }, after[part], to[part]);
      encodeSlots(commands, this.positions, to.positions, length);
    });
    this.#settle(live);
  }

  /** Sets smaller lengths; `fill` moves the slots where storage is replaced. */
  #count(counts: readonly number[], fill?: (to: DeviceStorage) => void): void {
    const before = this.#liveBytes;
    this.counts = counts;
    if (this.length === 0) this.#levels = undefined;
    this.#settle(before);
    if (this.capacity > 2 * this.length) this.#resize(this.length, fill);
  }

  /** Counts the bytes that are more, or fewer, than before. */
  #settle(before: number): void {
    const { ledger } = this.#device,
      more = this.#liveBytes - before;
    if (more > 0) ledger.use('cache', more);
    else ledger.release('cache', -more);
  }

  /** Returns the bytes of storage, with those of the slots' own rotations. */
  #bytesOf(storage: DeviceStorage): number {
    return storageBytes(storage) + (this.#rotated ? 4 * this.heads * storage.capacity : 0);
  }

  #copy(to: Pick<DeviceStorage, 'keys' | 'values' | 'positions'>, slots: number): void {
    const { commands } = this.#device.scope;
    for (const name of ['keys', 'values', 'positions'] as const) encodeSlots(commands, this[name], to[name], slots);
  }

  #resize(capacity: number, fill?: (to: DeviceStorage) => void): void {
    const { heads, headDim } = this,
      slots = Math.min(this.length, capacity);
    if (this.#levels)
      this.#takeRecords(
        this.#storage,
        this.counts.map((n) => range(0, n)),
        capacity,
      );
    else
      this.#replace(
        makeRows(this.#device.scope.commands, { heads, headDim, capacity }, this.#newest),
        fill ?? ((to) => this.#copy(to, slots)),
      );
  }

  /** Replaces the storage by one that `fill` fills. */
  #replace(next: DeviceStorage, fill?: (to: DeviceStorage) => void): void {
    const {
        scope: { commands },
        ledger,
      } = this.#device,
      old = this.#storage;
    ledger.allocate('cache', this.#bytesOf(next));
    fill?.(next);
    for (const tensor of old.tensors) commands.free(tensor);
    ledger.free('cache', this.#bytesOf(old));
    this.#storage = next;
  }
}
