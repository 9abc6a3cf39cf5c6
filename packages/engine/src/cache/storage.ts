import type { Slots } from '../memory/snapshot.ts';

/** Storage of `capacity` slots in each of `heads` KV heads. */
export interface Storage {
  readonly heads: number;
  readonly headDim: number;
  /** Allocated slots per head. */
  readonly capacity: number;
  /** `[G, capacity, d]` f32 */
  readonly keys: Float32Array;
  /** `[G, capacity, d]` f32 */
  readonly values: Float32Array;
  /** Original positions `[G, capacity]`. */
  readonly positions: Uint32Array;
  /** Positions that the keys are rotated by, `[G, capacity]`; absent while they are the original ones. */
  readonly rotations?: Uint32Array | undefined;
}

/** Returns the bytes of one slot of one head: key, value, position, and its rotation once rebased. */
export function slotBytes(headDim: number, rebased = false): number {
  return 4 * (2 * headDim + (rebased ? 2 : 1));
}

/** Returns storage of zeros. */
function createStorage(heads: number, headDim: number, capacity: number, rebased = false): Storage {
  return {
    heads,
    headDim,
    capacity,
    keys: new Float32Array(heads * capacity * headDim),
    values: new Float32Array(heads * capacity * headDim),
    positions: new Uint32Array(heads * capacity),
    ...(rebased && { rotations: new Uint32Array(heads * capacity) }),
  };
}

/** An allocator of cache storage. */
export interface Store {
  /** Allocates storage. Its contents are not written yet. */
  create(heads: number, headDim: number, capacity: number, rebased: boolean): Storage;
  /**
   * Moves these slots (ascending) of each head to the front of storage for `capacity`, no more than `from` has; returns
   * `from` itself if it is as large.
   */
  pack(from: Storage, kept: readonly Uint32Array[], capacity: number): Storage;
  /** Whether `pack` gives storage at the same place as `from`. */
  readonly inPlace: boolean;
  release(storage: Storage): void;
  /** Allocates numbers, all of them 0, that lie with the caches. */
  createNumbers(count: number): Float32Array;
  releaseNumbers(numbers: Float32Array): void;
}

/** Packs the slots in use, or, with `back`, unpacks them into storage. */
export function packSlots(storage: Storage, lengths: Uint32Array, packed: Slots, back = false): void {
  const d = storage.headDim;
  let at = 0;
  for (const [g, n] of lengths.entries()) {
    const from = g * storage.capacity;
    for (const [inside, outside, width] of [
      [storage.keys, packed.keys, d],
      [storage.values, packed.values, d],
      [storage.positions, packed.positions, 1],
      [storage.rotations, packed.rotations, 1],
    ] as const) {
      if (!inside || !outside) continue;
      if (back) inside.set(outside.subarray(at * width, (at + n) * width), from * width);
      else outside.set(inside.subarray(from * width, (from + n) * width), at * width);
    }
    at += n;
  }
}

/** Copies the first `lengths[g]` slots of each head. */
export function copySlots(from: Storage, to: Storage, lengths: Uint32Array): void {
  const d = from.headDim;
  for (let g = 0; g < from.heads; g++) {
    const first = g * from.capacity;
    const end = first + lengths[g];
    to.keys.set(from.keys.subarray(first * d, end * d), g * to.capacity * d);
    to.values.set(from.values.subarray(first * d, end * d), g * to.capacity * d);
    to.positions.set(from.positions.subarray(first, end), g * to.capacity);
    if (from.rotations) to.rotations?.set(from.rotations.subarray(first, end), g * to.capacity);
  }
}

/** Moves slots (ascending) of each head to the front of its part of `to`, which may be `from` itself, run by run. */
function moveSlots(from: Storage, to: Storage, kept: readonly Uint32Array[]): void {
  const { headDim: d } = from;
  for (const [g, slots] of kept.entries()) {
    const [base, start] = [g * from.capacity, g * to.capacity];
    for (let at = 0; at < slots.length; ) {
      const first = slots[at];
      let run = 1;
      while (at + run < slots.length && slots[at + run] === first + run) run++;
      for (const [a, b] of [
        [from.keys, to.keys],
        [from.values, to.values],
      ] as const)
        b.set(a.subarray((base + first) * d, (base + first + run) * d), (start + at) * d);
      at += run;
    }
    moveNumbers(from.positions, to.positions, base, start, slots);
    if (from.rotations && to.rotations) moveNumbers(from.rotations, to.rotations, base, start, slots);
  }
}

/** Copies the numbers of `slots`, counted from `base`, one after the other from `start` on. */
export function moveNumbers(from: Uint32Array, to: Uint32Array, base: number, start: number, slots: Uint32Array): void {
  for (let i = 0; i < slots.length; i++) to[start + i] = from[base + slots[i]];
}

/** Storage in arrays of this process, freed by the garbage collector. */
export const hostStore: Store = {
  inPlace: false,
  create: createStorage,
  pack(from, kept, capacity) {
    const { heads, headDim, rotations } = from,
      to = capacity === from.capacity ? from : createStorage(heads, headDim, capacity, rotations !== undefined);
    moveSlots(from, to, kept);
    return to;
  },
  release() {},
  createNumbers: (count) => new Float32Array(count),
  releaseNumbers() {},
};
