import type { Slots } from '../memory/snapshot.ts';
import { createRows, decodeRows, encodeRows, type Rows } from './encode.ts';
import { rowBytes, storedForms, type StorageForm } from './form.ts';
import { decodeRecords, encodeRecords, type RecordRows } from './record-rows.ts';
import { plainRows, type Records, type CacheRows } from './cache-rows.ts';

/** What storage is for. */
export interface StorageShape {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
  readonly form: StorageForm;
  /** Whether slots have rotations of their own. */
  readonly rebased: boolean;
  /** Bytes of a head's records, for slots at levels of their own. @defaultValue all slots have the form */
  readonly room?: number | undefined;
}

/** Storage of `capacity` slots in each of `heads` KV heads. */
export interface Storage {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
  /** How the newest slots are stored, and all of them unless some have levels of their own. */
  readonly form: StorageForm;
  /** Rows `[G, capacity]` of `d` numbers. */
  readonly keys: CacheRows;
  /** Rows `[G, capacity]` of `d` numbers. */
  readonly values: CacheRows;
  /** Slots at levels of their own, once one was demoted. */
  readonly records?: Records | undefined;
  /** Original positions `[G, capacity]`. */
  readonly positions: Uint32Array;
  /** Positions that the keys are rotated by, `[G, capacity]`; absent while they are the original ones. */
  readonly rotations?: Uint32Array | undefined;
}

/** Returns storage of zeros. */
function createStorage({ heads, headDim, capacity, form, rebased, room }: StorageShape): Storage {
  const slots = heads * capacity;
  if (room !== undefined)
    return storageOfRecords(
      { heads, headDim, capacity, form },
      { bytes: new Uint8Array(heads * room), room, table: new Uint32Array(slots) },
      new Uint32Array(slots),
      rebased,
    );
  return {
    heads,
    headDim,
    capacity,
    form,
    keys: createRows(storedForms[form].keys, headDim, slots),
    values: createRows(storedForms[form].values, headDim, slots),
    positions: new Uint32Array(slots),
    ...(rebased && { rotations: new Uint32Array(slots) }),
  };
}

/** Returns storage of these records. */
export function storageOfRecords(
  shape: Pick<Storage, 'heads' | 'headDim' | 'capacity' | 'form'>,
  records: Records,
  positions: Uint32Array,
  rebased: boolean,
): Storage {
  const { bytes: scales, table } = records,
    mixed = { form: 'mixed', codes: new Uint8Array(table.buffer, table.byteOffset, table.byteLength), scales } as const;
  return {
    ...shape,
    keys: mixed,
    values: mixed,
    records,
    positions,
    ...(rebased && { rotations: new Uint32Array(positions.length) }),
  };
}

/** Bytes of slots that lie one after the other, `each` of them a slot. */
export interface Plane {
  readonly bytes: Uint8Array;
  readonly each: number;
}

/** Returns the arrays that rows of one form consist of: key codes and scales, value codes and scales. */
export const rowPlanes = ({ keys, values }: Pick<Storage, 'keys' | 'values'>, headDim: number): readonly Plane[] =>
  [plainRows(keys), plainRows(values)]
    .flatMap(({ form, codes, scales }) => {
      const each = rowBytes(form, headDim);
      return [
        { bytes: codes, each: each.codes },
        { bytes: scales, each: each.scales },
      ];
    })
    .filter(({ each }) => each > 0);

/** Returns the arrays that slots of one form consist of, as bytes. */
export const planesOf = (
  { positions, rotations, ...rows }: Pick<Storage, 'keys' | 'values' | 'positions' | 'rotations'>,
  headDim: number,
): readonly Plane[] => [...rowPlanes(rows, headDim), plane(positions), ...(rotations ? [plane(rotations)] : [])];

const plane = ({ buffer, byteOffset, byteLength }: Uint32Array): Plane => ({
  bytes: new Uint8Array(buffer, byteOffset, byteLength),
  each: 4,
});

/** An allocator of cache storage. */
export interface Store {
  /** Allocates storage. Its contents are not written yet. */
  create(shape: StorageShape): Storage;
  /**
   * Moves these slots (ascending) of each head to the front of storage for `capacity`, no more than `from` has; returns
   * `from` itself if it is as large.
   */
  pack(from: Storage, kept: readonly Uint32Array[], capacity: number): Storage;
  /** Whether `pack` gives storage at the same place as `from`. */
  readonly inPlace: boolean;
  release(storage: Storage): void;
  /** Stores vectors `x` `[n, d]` as rows, from row `at` on. */
  encode(rows: Rows, d: number, at: number, x: Float32Array): void;
  /** Writes `n` rows, from row `at` on, to `out` `[n, d]`. */
  decode(rows: Rows, d: number, at: number, n: number, out: Float32Array): void;
  /** Stores vectors x `[n, d]` in n records. */
  encodeRecords(records: RecordRows, d: number, x: Float32Array): void;
  /** Writes n records to `out` `[n, d]`. */
  decodeRecords(records: RecordRows, d: number, out: Float32Array): void;
  /** Allocates numbers, all of them 0, that lie with the caches. */
  createNumbers(count: number): Float32Array;
  releaseNumbers(numbers: Float32Array): void;
}

/** Packs the slots in use, or, with `back`, unpacks them into storage of the same form. */
export function packSlots(storage: Storage, lengths: Uint32Array, packed: Slots, back = false): void {
  const [inside, outside] = [planesOf(storage, storage.headDim), planesOf(packed, storage.headDim)];
  for (const [i, { bytes, each }] of inside.entries()) {
    const whole = outside[i].bytes;
    let at = 0;
    for (const [g, n] of lengths.entries()) {
      const from = g * storage.capacity;
      if (back) bytes.set(whole.subarray(at * each, (at + n) * each), from * each);
      else whole.set(bytes.subarray(from * each, (from + n) * each), at * each);
      at += n;
    }
  }
}

/** Copies the first `lengths[g]` slots of each head to storage of the same form. */
export function copySlots(from: Storage, to: Storage, lengths: Uint32Array): void {
  const [old, next] = [planesOf(from, from.headDim), planesOf(to, from.headDim)];
  for (const [i, { bytes, each }] of old.entries())
    for (let g = 0; g < from.heads; g++) {
      const first = g * from.capacity;
      next[i].bytes.set(bytes.subarray(first * each, (first + lengths[g]) * each), g * to.capacity * each);
    }
}

/** Moves slots (ascending) of each head to the front of its part of `to`, which may be `from` itself, run by run. */
function moveSlots(from: Storage, to: Storage, kept: readonly Uint32Array[]): void {
  const [old, next] = [planesOf(from, from.headDim), planesOf(to, from.headDim)];
  for (const [g, slots] of kept.entries()) {
    const [base, start] = [g * from.capacity, g * to.capacity];
    for (let at = 0; at < slots.length; ) {
      const first = slots[at];
      let run = 1;
      while (at + run < slots.length && slots[at + run] === first + run) run++;
      for (const [i, { bytes, each }] of old.entries())
        next[i].bytes.set(bytes.subarray((base + first) * each, (base + first + run) * each), (start + at) * each);
      at += run;
    }
  }
}

/** Storage in arrays of this process, freed by the garbage collector. */
export const hostStore: Store = {
  inPlace: false,
  create: createStorage,
  pack(from, kept, capacity) {
    const to =
      capacity === from.capacity ? from : createStorage({ ...from, capacity, rebased: from.rotations !== undefined });
    moveSlots(from, to, kept);
    return to;
  },
  release() {},
  encode: encodeRows,
  decode: decodeRows,
  encodeRecords,
  decodeRecords,
  createNumbers: (count) => new Float32Array(count),
  releaseNumbers() {},
};

/** Returns slots in a form: themselves, or a copy that is decoded and encoded. */
export function inForm(slots: Slots, form: StorageForm, d: number): Slots {
  if (slots.form === form) return slots;
  const { positions } = slots,
    count = positions.length,
    out = hostStore.create({ heads: 1, headDim: d, capacity: count, form, rebased: false }),
    x = new Float32Array(count * d);
  for (const part of ['keys', 'values'] as const) {
    decodeRows(plainRows(slots[part]), d, 0, count, x);
    encodeRows(plainRows(out[part]), d, 0, x);
  }
  return { ...out, positions, ...(slots.rotations && { rotations: slots.rotations }) };
}
