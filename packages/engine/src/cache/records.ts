import { KvError, LEVELS } from '@kv/core';
import { decodeRows, encodeRows, HALF_ULP, roundingBound, type Rows } from './encode.ts';
import { cacheForms, rowBytes, slotBytes, unmovedForm, type StorageForm } from './form.ts';
import { rowPlanes, type Storage, type StorageShape, type Store } from './storage.ts';
import { plainRows, type CachePart, type Records } from './cache-rows.ts';

/** Storage of records. */
export type RecordStorage = Storage & { readonly records: Records };

/** First bit of the level in an entry of the table. */
export const LEVEL_SHIFT = 29;
/** Bytes that a table can tell apart. */
export const MOST_RECORD_BYTES: number = 4 * 2 ** LEVEL_SHIFT;

/** Returns the level of a form. */
export const levelOf = (form: StorageForm): number => LEVELS.indexOf(unmovedForm(form));

/** Returns the bytes of a record. */
export const recordBytes = (level: number, headDim: number): number => slotBytes(LEVELS[level], headDim) - 4;

/** Returns the bytes of a record at every level. */
const sizesOf = (headDim: number): readonly number[] => LEVELS.map((_, level) => recordBytes(level, headDim));

/** Whether slots have levels of their own. */
export const hasRecords = (storage: Storage): storage is RecordStorage => storage.records !== undefined;

/** Returns the level of a slot, counted from the first slot of the first head. */
export const levelAt = ({ records, form }: Storage, slot: number): number =>
  records ? records.table[slot] >>> LEVEL_SHIFT : levelOf(form);

const begin = ({ table }: Records, slot: number): number =>
  ((table[slot] << (32 - LEVEL_SHIFT)) >>> (32 - LEVEL_SHIFT)) * 4;
const place = (level: number, at: number): number => ((level << LEVEL_SHIFT) | (at / 4)) >>> 0;

/** Returns the keys or values of one slot. */
export function recordRows(
  { records, headDim }: Pick<RecordStorage, 'records' | 'headDim'>,
  part: CachePart,
  slot: number,
): Rows {
  const level = records.table[slot] >>> LEVEL_SHIFT,
    { keys, values } = cacheForms[LEVELS[level]],
    key = rowBytes(keys, headDim);
  let at = begin(records, slot);
  if (part === 'values') at += key.codes + key.scales;
  const form = part === 'keys' ? keys : values,
    { codes, scales } = rowBytes(form, headDim);
  return {
    form,
    codes: records.bytes.subarray(at, at + codes),
    scales: records.bytes.subarray(at + codes, at + codes + scales),
  };
}

/** Returns the bytes of the first n records of a head. */
export function bytesBefore({ records, headDim, capacity }: RecordStorage, g: number, n: number): number {
  if (n === 0) return 0;
  const last = g * capacity + n - 1;
  return begin(records, last) + recordBytes(records.table[last] >>> LEVEL_SHIFT, headDim) - g * records.room;
}

/** Returns the bytes of the slots in use: those of their rows, their positions, and what finds their records. */
export function bytesInUse(storage: Storage, lengths: Uint32Array): number {
  const { form, headDim, rotations } = storage,
    slots = lengths.reduce((a, b) => a + b, 0);
  if (!hasRecords(storage)) return slots * slotBytes(form, headDim, rotations !== undefined);
  let bytes = slots * placeBytes(storage);
  for (let g = 0; g < lengths.length; g++) bytes += bytesBefore(storage, g, lengths[g]);
  return bytes;
}

/** Returns the bytes of allocated slots. */
export function bytesHeld(storage: Storage): number {
  const { form, headDim, rotations, heads, capacity } = storage;
  return hasRecords(storage)
    ? heads * (storage.records.room + capacity * placeBytes(storage))
    : heads * capacity * slotBytes(form, headDim, rotations !== undefined);
}

/** Bytes of a slot besides its record: position, entry of the table and, once rebased, rotation. */
const placeBytes = ({ rotations }: Storage): number => (rotations ? 12 : 8);

/** Returns the bytes of a slot that joins those in use. */
export const newSlotBytes = (storage: Storage): number =>
  slotBytes(storage.form, storage.headDim, storage.rotations !== undefined) + (storage.records ? 4 : 0);

/** Lays out the slots that are not in use, from the n-th of a head on. */
function layFree(storage: RecordStorage, g: number, n: number): void {
  const { records, form, headDim, capacity } = storage,
    own = levelOf(form),
    each = recordBytes(own, headDim);
  let at = g * records.room + bytesBefore(storage, g, n);
  for (let i = n; i < capacity; i++, at += each) records.table[g * capacity + i] = place(own, at);
}

/** What a slot becomes: the coarsest of what it is, what it is given, and the form of the storage that it joins. */
const joined = (from: Storage, slot: number, to: StorageForm, given = 0): number =>
  Math.max(levelAt(from, slot), given, levelOf(to));

/** Writes keys or values of one slot to `out`, as f32. */
function readSlot(storage: Storage, part: CachePart, slot: number, out: Float32Array): void {
  if (hasRecords(storage)) decodeRows(recordRows(storage, part, slot), storage.headDim, 0, 1, out);
  else decodeRows(plainRows(storage[part]), storage.headDim, slot, 1, out);
}

/**
 * Moves slots (ascending, counted from the first slot of the first head) to the front of head g of `to`, which may be
 * `from` itself. Only what is demoted is decoded and stored again; other records move as they are, run by run.
 * @param levels given to these slots
 */
function moveRecords(
  from: Storage,
  slots: ArrayLike<number>,
  to: RecordStorage,
  g: number,
  levels?: ArrayLike<number>,
): void {
  const { headDim: d, capacity, records, positions, rotations } = to,
    { bytes, table, room } = records,
    sizes = sizesOf(d),
    plain = hasRecords(from) ? [] : rowPlanes(from, d),
    key = new Float32Array(d),
    value = new Float32Array(d),
    run = { from: 0, to: 0, size: 0 };
  const copyRun = (): void => {
    if (run.size > 0 && hasRecords(from)) bytes.set(from.records.bytes.subarray(run.from, run.from + run.size), run.to);
    run.size = 0;
  };
  let end = g * room;
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i],
      next = g * capacity + i,
      level = joined(from, slot, to.form, levels?.[i]),
      stays = level === levelAt(from, slot),
      size = sizes[level],
      at = end;
    end += size;
    if (stays && hasRecords(from)) {
      const first = begin(from.records, slot);
      if (first !== run.from + run.size) copyRun();
      if (run.size === 0) [run.from, run.to] = [first, at];
      run.size += size;
    } else copyRun();
    if (!stays) {
      readSlot(from, 'keys', slot, key);
      readSlot(from, 'values', slot, value);
    }
    table[next] = place(level, at);
    positions[next] = from.positions[slot];
    if (rotations && from.rotations) rotations[next] = from.rotations[slot];
    if (stays)
      plain.reduce((at, { bytes: rows, each }) => {
        bytes.set(rows.subarray(slot * each, (slot + 1) * each), at);
        return at + each;
      }, at);
    else {
      encodeRows(recordRows(to, 'keys', next), d, 0, key);
      encodeRows(recordRows(to, 'values', next), d, 0, value);
    }
  }
  copyRun();
  layFree(to, g, slots.length);
}

/** Slots to be moved: for each head a list of them, counted from the first slot of the first head, and their levels. */
export interface MovedSlots {
  readonly from: Storage;
  readonly lists: readonly Uint32Array[];
  readonly levels?: readonly Uint8Array[] | undefined;
}

/** Returns the bytes of each head's records once these slots are in storage of this form. */
function bytesAfter({ from, lists, levels }: MovedSlots, form: StorageForm): number[] {
  const sizes = sizesOf(from.headDim);
  return lists.map((list, g) =>
    list.reduce((sum, slot, i) => sum + sizes[joined(from, slot, form, levels?.[g][i])], 0),
  );
}

/**
 * Returns storage of records, with room for `capacity` slots, that holds these slots.
 * @throws KvError, before anything changes, for more bytes than a table can tell apart
 */
export function storeRecords(store: Store, moved: MovedSlots, shape: Omit<StorageShape, 'room'>): RecordStorage {
  const { heads, headDim, capacity, form } = shape,
    own = recordBytes(levelOf(form), headDim),
    room = bytesAfter(moved, form).reduce(
      (most, bytes, g) => Math.max(most, bytes + (capacity - moved.lists[g].length) * own),
      0,
    );
  if (heads * room > MOST_RECORD_BYTES)
    throw new KvError('cache', `a layer's slots at levels must fit ${MOST_RECORD_BYTES} bytes, got ${heads * room}`);
  const to = store.create({ ...shape, room });
  if (!hasRecords(to)) throw new TypeError('expected storage of records');
  for (const [g, list] of moved.lists.entries()) moveRecords(moved.from, list, to, g, moved.levels?.[g]);
  return to;
}

/**
 * Moves slots within their own storage, unless it lacks room for as many new ones as it has places, or is more than
 * twice as large as `need` slots are.
 * @returns whether they were moved
 */
export function keepRecords(moved: MovedSlots, need: number): boolean {
  const { from, lists } = moved;
  if (!hasRecords(from) || from.capacity < need || from.capacity > 2 * need) return false;
  const own = recordBytes(levelOf(from.form), from.headDim),
    { room } = from.records,
    after = bytesAfter(moved, from.form);
  if (after.some((bytes, g) => bytes + (from.capacity - lists[g].length) * own > room)) return false;
  if (room > 2 * Math.max(...after.map((bytes, g) => bytes + (need - lists[g].length) * own))) return false;
  for (const [g, list] of lists.entries()) moveRecords(from, list, from, g, moved.levels?.[g]);
  return true;
}

/** Returns the records of slots of one head at these levels, whose bytes lie one after the other. */
export function recordsOf(levels: ArrayLike<number>, bytes: Uint8Array, headDim: number): Records {
  const table = new Uint32Array(levels.length);
  let at = 0;
  for (let i = 0; i < levels.length; i++) {
    table[i] = place(levels[i], at);
    at += recordBytes(levels[i], headDim);
  }
  return { bytes, room: bytes.length, table };
}

/** Returns the levels of slots. */
export const levelsOf = ({ table }: Records): Uint32Array => table.map((word) => word >>> LEVEL_SHIFT);

/**
 * Returns a bound on what rounding has taken off keys or values of a head's first n slots: the largest Euclidean norm of
 * a row's change. A slot may have passed every level from the storage's form to its own.
 */
export function recordsBound(
  storage: Pick<RecordStorage, 'records' | 'headDim' | 'capacity' | 'form'>,
  part: CachePart,
  g: number,
  n: number,
): number {
  const { records, headDim: d, capacity, form } = storage,
    own = levelOf(form),
    row = new Float32Array(d);
  let most = 0;
  for (let slot = g * capacity; slot < g * capacity + n; slot++) {
    const rows = recordRows(storage, part, slot),
      last = roundingBound(rows, d, 0, 1);
    decodeRows(rows, d, 0, 1, row);
    const top = row.reduce((max, x) => Math.max(max, Math.abs(x)), 0);
    let bound = last;
    for (let level = (records.table[slot] >>> LEVEL_SHIFT) - 1; level >= own; level--) {
      const before = cacheForms[LEVELS[level]][part],
        // the largest number that can have been there
        most = top + bound;
      if (before === 'q8') bound += ((0.501 * most) / 127) * Math.sqrt(d);
      else if (before === 'f16') bound += (HALF_ULP * most + 2 ** -25) * Math.sqrt(d);
      // the same numbers rounded twice to 4 bits have steps of one size, but for the rounding of their scales
      else if (before === 'q4') bound += 1.02 * last;
    }
    most = Math.max(most, bound);
  }
  return most;
}
