import { KvError, LEVELS } from '@kv/core';
import { decodeRows, HALF_ULP, MOST_IN_HALF, roundingBound, type Rows } from './encode.ts';
import { cacheForms, rowBytes, slotBytes, unmovedForm, type StorageForm } from './form.ts';
import { begin, partLayouts, LEVEL_SHIFT, type RecordRows } from './record-rows.ts';
import { rowPlanes, type Storage, type StorageShape, type Store } from './storage.ts';
import { plainRows, type CachePart, type Records } from './cache-rows.ts';

/** Storage of records. */
export type RecordStorage = Storage & { readonly records: Records };

/** Bytes that a table can tell apart. */
export const MOST_RECORD_BYTES: number = 4 * 2 ** LEVEL_SHIFT;

/** Returns the level of a form. */
export const levelOf = (form: StorageForm): number => LEVELS.indexOf(unmovedForm(form));

/** Returns the bytes of a record. */
export const recordBytes = (level: number, headDim: number): number => slotBytes(LEVELS[level], headDim) - 4;

/** Returns the bytes of a record at every level. */
const sizesOf = (headDim: number): readonly number[] => LEVELS.map((_, level) => recordBytes(level, headDim));

/** Whether slots have levels of their own. */
export const hasRecords = <T extends Pick<Storage, 'records'>>(
  storage: T,
): storage is T & { readonly records: Records } => storage.records !== undefined;

/** Returns the level of a slot, counted from the first slot of the first head. */
export const levelAt = ({ records, form }: Storage, slot: number): number =>
  records ? records.table[slot] >>> LEVEL_SHIFT : levelOf(form);

const place = (level: number, at: number): number => ((level << LEVEL_SHIFT) | (at / 4)) >>> 0;

/** Returns the keys or values of n slots. */
export const recordRows = (
  { records: { table, bytes } }: Pick<RecordStorage, 'records'>,
  part: CachePart,
  slot: number,
  n: number,
): RecordRows => ({ part, words: table.subarray(slot, slot + n), bytes });

/** Returns the bytes of the first n records of a head. */
export function bytesBefore({ records, headDim, capacity }: RecordStorage, g: number, n: number): number {
  if (n === 0) return 0;
  const last = g * capacity + n - 1;
  return begin(records.table[last]) + recordBytes(records.table[last] >>> LEVEL_SHIFT, headDim) - g * records.room;
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

/**
 * Returns the levels that slots have, and those that they get: the coarsest of what they have, what they are given, and
 * the form of the storage that they join.
 */
function levelsOfMoved(
  { records, form }: Storage,
  slots: ArrayLike<number>,
  to: StorageForm,
  given?: ArrayLike<number>,
): { readonly before: Uint8Array; readonly after: Uint8Array } {
  const [before, after] = [new Uint8Array(slots.length), new Uint8Array(slots.length)],
    [all, least] = [levelOf(form), levelOf(to)];
  for (let i = 0; i < slots.length; i++) {
    const level = records ? records.table[slots[i]] >>> LEVEL_SHIFT : all;
    before[i] = level;
    after[i] = Math.max(level, least, given ? given[i] : 0);
  }
  return { before, after };
}

/** Slots that are decoded and stored again together. */
const TOGETHER = 128;

/** Numbers and words of slots that are stored again, where the store can work on them. */
interface Recoded {
  readonly keys: Float32Array;
  readonly values: Float32Array;
  readonly words: Uint32Array;
}

/** Calls a function with a place for numbers, which exists once it is asked for. */
function withRecoded<T>(store: Store, d: number, use: (recoded: () => Recoded) => T): T {
  let numbers: Float32Array | undefined;
  const recoded = (): Recoded => {
    numbers ??= store.createNumbers(TOGETHER * (2 * d + 1));
    const { buffer, byteOffset } = numbers,
      part = (i: number): Float32Array => new Float32Array(buffer, byteOffset + 4 * i * TOGETHER * d, TOGETHER * d);
    return {
      keys: part(0),
      values: part(1),
      words: new Uint32Array(buffer, byteOffset + 8 * TOGETHER * d, TOGETHER),
    };
  };
  try {
    return use(recoded);
  } finally {
    if (numbers) store.releaseNumbers(numbers);
  }
}

/** Writes the keys or values of slots to `out`, as f32. */
function readSlots(store: Store, from: Storage, part: CachePart, slots: readonly number[], recoded: Recoded): void {
  const { headDim: d } = from,
    { [part]: out } = recoded;
  if (hasRecords(from)) {
    const words = recoded.words.subarray(0, slots.length);
    for (let i = 0; i < slots.length; i++) words[i] = from.records.table[slots[i]];
    store.decodeRecords({ part, words, bytes: from.records.bytes }, d, out);
    return;
  }
  for (let i = 0; i < slots.length; ) {
    let n = 1;
    while (slots[i + n] === slots[i] + n) n++;
    store.decode(plainRows(from[part]), d, slots[i], n, out.subarray(i * d, (i + n) * d));
    i += n;
  }
}

/**
 * Moves slots (ascending, counted from the first slot of the first head) to the front of head g of `to`, which may be
 * `from` itself: some after the other, so that none is overwritten before it was read. Only what is demoted is decoded
 * and stored again; other records move as they are, run by run.
 * @param levels given to these slots
 */
function moveRecords(
  store: Store,
  from: Storage,
  slots: ArrayLike<number>,
  to: RecordStorage,
  g: number,
  levels: ArrayLike<number> | undefined,
  recoded: () => Recoded,
): void {
  const { headDim: d, capacity, records, positions, rotations } = to,
    { bytes, table, room } = records,
    sizes = sizesOf(d),
    { before, after } = levelsOfMoved(from, slots, to.form, levels),
    plain = hasRecords(from) ? [] : rowPlanes(from, d),
    run = { from: 0, to: 0, size: 0 };
  const copyRun = (): void => {
    if (run.size > 0 && hasRecords(from)) bytes.set(from.records.bytes.subarray(run.from, run.from + run.size), run.to);
    run.size = 0;
  };
  let end = g * room;
  for (let start = 0; start < slots.length; start += TOGETHER) {
    const stop = Math.min(slots.length, start + TOGETHER),
      demoted: number[] = [],
      places: number[] = [];
    for (let i = start; i < stop; i++)
      if (before[i] !== after[i]) {
        demoted.push(slots[i]);
        places.push(g * capacity + i);
      }
    const x = demoted.length > 0 ? recoded() : undefined;
    if (x) for (const part of ['keys', 'values'] as const) readSlots(store, from, part, demoted, x);
    for (let i = start; i < stop; i++) {
      const slot = slots[i],
        next = g * capacity + i,
        level = after[i],
        stays = level === before[i],
        at = end;
      end += sizes[level];
      if (stays && hasRecords(from)) {
        const first = begin(from.records.table[slot]);
        if (first !== run.from + run.size) copyRun();
        if (run.size === 0) [run.from, run.to] = [first, at];
        run.size += sizes[level];
      } else {
        copyRun();
        let to = at;
        if (stays)
          for (const { bytes: rows, each } of plain) {
            bytes.set(rows.subarray(slot * each, (slot + 1) * each), to);
            to += each;
          }
      }
      table[next] = place(level, at);
      positions[next] = from.positions[slot];
      if (rotations && from.rotations) rotations[next] = from.rotations[slot];
    }
    copyRun();
    if (!x) continue;
    const words = x.words.subarray(0, places.length);
    for (let i = 0; i < places.length; i++) words[i] = table[places[i]];
    for (const part of ['keys', 'values'] as const)
      store.encodeRecords({ part, words, bytes }, d, x[part].subarray(0, places.length * d));
  }
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
    levelsOfMoved(from, list, form, levels?.[g]).after.reduce((sum, level) => sum + sizes[level], 0),
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
  withRecoded(store, headDim, (recoded) => {
    for (const [g, list] of moved.lists.entries())
      moveRecords(store, moved.from, list, to, g, moved.levels?.[g], recoded);
  });
  return to;
}

/**
 * Moves slots within their own storage, unless it lacks room for as many new ones as it has places, or is more than
 * twice as large as `need` slots are.
 * @returns whether they were moved
 */
export function keepRecords(store: Store, moved: MovedSlots, need: number): boolean {
  const { from, lists } = moved;
  if (!hasRecords(from) || from.capacity < need || from.capacity > 2 * need) return false;
  const own = recordBytes(levelOf(from.form), from.headDim),
    { room } = from.records,
    after = bytesAfter(moved, from.form);
  if (after.some((bytes, g) => bytes + (from.capacity - lists[g].length) * own > room)) return false;
  if (room > 2 * Math.max(...after.map((bytes, g) => bytes + (need - lists[g].length) * own))) return false;
  withRecoded(store, from.headDim, (recoded) => {
    for (const [g, list] of lists.entries()) moveRecords(store, from, list, from, g, moved.levels?.[g], recoded);
  });
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
    layouts = partLayouts(part, d),
    row = new Float32Array(d);
  let most = 0;
  for (let slot = g * capacity; slot < g * capacity + n; slot++) {
    const word = records.table[slot],
      at = begin(word),
      { form, codes, scales } = layouts[word >>> LEVEL_SHIFT],
      rows: Rows = {
        form,
        codes: records.bytes.subarray(at + codes, at + scales),
        scales: records.bytes.subarray(at + scales, at + scales + rowBytes(form, d).scales),
      },
      last = roundingBound(rows, d, 0, 1);
    decodeRows(rows, d, 0, 1, row);
    const top = row.reduce((max, x) => Math.max(max, Math.abs(x)), 0);
    let bound = last;
    for (let level = (records.table[slot] >>> LEVEL_SHIFT) - 1; level >= own; level--) {
      const before = cacheForms[LEVELS[level]][part],
        // the largest number that can have been there
        most = top + bound;
      if (before === 'q8') bound += ((0.501 * most) / 127) * Math.sqrt(d);
      else if (before === 'f16') bound += most < MOST_IN_HALF ? (HALF_ULP * most + 2 ** -25) * Math.sqrt(d) : Infinity;
      // the same numbers rounded twice to 4 bits have steps of one size, but for the rounding of their scales
      else if (before === 'q4') bound += 1.02 * last;
    }
    most = Math.max(most, bound);
  }
  return most;
}
