import type { Slots } from '../memory/snapshot.ts';
import { createRows, decodeRows, encodeRows, type Rows } from './encode.ts';
import { cacheForms, rowBytes, type CacheForm } from './form.ts';

/** What storage is for. */
export interface StorageShape {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
  readonly form: CacheForm;
  /** Whether slots have rotations of their own. */
  readonly rebased: boolean;
}

/** Storage of `capacity` slots in each of `heads` KV heads. */
export interface Storage {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
  readonly form: CacheForm;
  /** Rows `[G, capacity]` of `d` numbers. */
  readonly keys: Rows;
  /** Rows `[G, capacity]` of `d` numbers. */
  readonly values: Rows;
  /** Original positions `[G, capacity]`. */
  readonly positions: Uint32Array;
  /** Positions that the keys are rotated by, `[G, capacity]`; absent while they are the original ones. */
  readonly rotations?: Uint32Array | undefined;
}

/** Returns storage of zeros. */
function createStorage({ heads, headDim, capacity, form, rebased }: StorageShape): Storage {
  const slots = heads * capacity;
  return {
    heads,
    headDim,
    capacity,
    form,
    keys: createRows(cacheForms[form].keys, headDim, slots),
    values: createRows(cacheForms[form].values, headDim, slots),
    positions: new Uint32Array(slots),
    ...(rebased && { rotations: new Uint32Array(slots) }),
  };
}

/** Bytes of slots that lie one after the other, `each` of them a slot. */
export interface Plane {
  readonly bytes: Uint8Array;
  readonly each: number;
}

/** Returns the arrays that slots consist of, as bytes. */
export function planesOf(
  { keys, values, positions, rotations }: Pick<Storage, 'keys' | 'values' | 'positions' | 'rotations'>,
  headDim: number,
): readonly Plane[] {
  const rows = [keys, values].flatMap(({ form, codes, scales }) => {
    const each = rowBytes(form, headDim);
    return [
      { bytes: codes, each: each.codes },
      { bytes: scales, each: each.scales },
    ];
  });
  return [...rows, plane(positions), ...(rotations ? [plane(rotations)] : [])].filter(({ each }) => each > 0);
}

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
  createNumbers: (count) => new Float32Array(count),
  releaseNumbers() {},
};
