import { KvError, LEVELS, type Tensor } from '@kv/core';
import { sizeOf } from '@kv/core/engine';
import { cacheForms, LEVEL_SHIFT, MOST_RECORD_BYTES, recordBytes, storedForms } from '@kv/engine';
import type { CachePart, Records, StorageForm } from '@kv/engine';
import type { Commands } from '@kv/gpu';
import type { DeviceSlots } from '../operations.ts';
import { rowType, rowWords, type DeviceForm } from '../wgsl/stored-rows.ts';

/** Storage of `capacity` slots in each KV head of one layer. */
export interface DeviceStorage extends Pick<DeviceSlots, 'headDim' | 'keys' | 'values' | 'positions'> {
  readonly form: DeviceForm;
  readonly capacity: number;
  /** The tensors that it consists of. */
  readonly tensors: readonly Tensor[];
}

/** What storage is for. */
interface StorageShape {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
}

/** Returns the bytes of storage. */
export const storageBytes = ({ tensors }: DeviceStorage): number =>
  tensors.reduce((sum, { shape }) => sum + 4 * sizeOf(shape), 0);

/** Allocates storage of rows of one form, whose contents are undefined. */
export function makeRows(
  commands: Commands,
  { heads, headDim, capacity }: StorageShape,
  form: StorageForm,
): DeviceStorage {
  const part = (of: CachePart): Tensor => {
      const { [of]: rows } = storedForms[form];
      return commands.make([heads, capacity, rowWords(rows, headDim)], rowType(rows));
    },
    [keys, values, positions] = [part('keys'), part('values'), commands.make([heads, capacity], 'u32')];
  return { form, headDim, capacity, keys, values, positions, tensors: [keys, values, positions] };
}

/** Where the records of slots at levels lie in one buffer. */
export interface RecordLayout {
  /** The table at its start, `[G, capacity]`. */
  readonly entries: Uint32Array;
  /** Words of all, with the table. */
  readonly words: number;
}

/**
 * Lays out records of slots at levels `[kvHead][slot]`, head after head, each with room for new slots at the level
 * `own`.
 * @throws KvError for more bytes than an entry can tell apart
 */
export function layRecords(
  levels: readonly (readonly number[])[],
  { headDim, capacity }: Pick<StorageShape, 'headDim' | 'capacity'>,
  own: number,
): RecordLayout {
  const sizes = LEVELS.map((_, level) => recordBytes(level, headDim) / 4),
    entries = new Uint32Array(levels.length * capacity);
  let at = entries.length;
  for (const [g, list] of levels.entries())
    for (let i = 0; i < capacity; i++) {
      const level = list[i] ?? own;
      entries[g * capacity + i] = (level << LEVEL_SHIFT) | at;
      at += sizes[level];
    }
  if (4 * at > MOST_RECORD_BYTES)
    throw new KvError('cache', `a layer's slots at levels must fit ${MOST_RECORD_BYTES} bytes, got ${4 * at}`);
  return { entries, words: at };
}

/** Allocates storage of records, whose contents are undefined. */
export const makeRecords = (commands: Commands, shape: StorageShape, { entries, words }: RecordLayout): DeviceStorage =>
  storageOf(commands, shape, entries, commands.make([1, words], 'u32'));

/** Returns storage with these records, whose positions are not written yet. */
export function uploadRecords(commands: Commands, shape: StorageShape, { bytes, table }: Records): DeviceStorage {
  const records = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4),
    words = new Uint32Array(table.length + records.length),
    entries = table.map((entry) => entry + table.length);
  words.set(entries);
  words.set(records, entries.length);
  return storageOf(commands, shape, entries, commands.upload(words, [1, words.length]));
}

function storageOf(
  commands: Commands,
  { heads, headDim, capacity }: StorageShape,
  entries: Uint32Array,
  records: Tensor,
): DeviceStorage {
  const positions = commands.make([heads, capacity], 'u32'),
    part = (of: CachePart): Tensor => ({ ...records, shape: [heads, capacity, meanWords(of, entries, headDim)] });
  return {
    ...{ form: 'records', headDim, capacity },
    ...{ keys: part('keys'), values: part('values'), positions },
    tensors: [records, positions],
  };
}

/** Returns the words that a key or value of a record has on average, with that of the table: what a kernel reads of it. */
function meanWords(part: CachePart, entries: Uint32Array, headDim: number): number {
  const sizes = LEVELS.map((level) => rowWords(cacheForms[level][part], headDim)),
    words = entries.reduce((sum, entry) => sum + sizes[entry >>> LEVEL_SHIFT], 0);
  return 1 + Math.floor(words / Math.max(1, entries.length));
}

/** Returns the bytes of the records of slots at levels `[kvHead][slot]`, one after the other, from the words of all. */
export function recordsIn(
  words: Float32Array | Uint32Array,
  {
    levels,
    headDim,
    capacity,
  }: Pick<StorageShape, 'headDim' | 'capacity'> & { readonly levels: readonly (readonly number[])[] },
): Uint8Array {
  const { buffer, byteOffset, length } = words,
    entries = new Uint32Array(buffer, byteOffset, length),
    sizes = levels.map((list) => list.reduce((sum, level) => sum + recordBytes(level, headDim), 0)),
    out = new Uint8Array(sizes.reduce((a, b) => a + b, 0));
  let to = 0;
  for (const [g, size] of sizes.entries()) {
    // those of a head lie one after the other
    const first = 4 * (entries[g * capacity] % 2 ** LEVEL_SHIFT);
    out.set(new Uint8Array(buffer, byteOffset + first, size), to);
    to += size;
  }
  return out;
}
