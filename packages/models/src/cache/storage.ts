/** Room for `capacity` slots in each of `heads` KV heads. */
export interface Storage {
  readonly heads: number;
  readonly headDim: number;
  /** Slots that there is room for, per head. */
  readonly capacity: number;
  /** `[G, capacity, d]` f32 */
  readonly keys: Float32Array;
  /** `[G, capacity, d]` f32 */
  readonly values: Float32Array;
  /** Original positions `[G, capacity]`. */
  readonly positions: Uint32Array;
}

/** Bytes of one slot of one head: key, value, position. */
export function slotBytes(headDim: number): number {
  return 4 * (2 * headDim + 1);
}

/** Storage of zeros. */
export function createStorage(heads: number, headDim: number, capacity: number): Storage {
  return {
    heads,
    headDim,
    capacity,
    keys: new Float32Array(heads * capacity * headDim),
    values: new Float32Array(heads * capacity * headDim),
    positions: new Uint32Array(heads * capacity),
  };
}

/** Copies the first `lengths[g]` slots of each head. */
export function copySlots(from: Storage, to: Storage, lengths: Uint32Array): void {
  const d = from.headDim;
  for (let g = 0; g < from.heads; g++) {
    const first = g * from.capacity;
    const end = first + lengths[g]!;
    to.keys.set(from.keys.subarray(first * d, end * d), g * to.capacity * d);
    to.values.set(from.values.subarray(first * d, end * d), g * to.capacity * d);
    to.positions.set(from.positions.subarray(first, end), g * to.capacity);
  }
}

/** Moves the slots (ascending) of one head to its front, run by run. */
export function compactSlots({ capacity, headDim: d, keys, values, positions }: Storage, g: number, slots: Uint32Array): void {
  const base = g * capacity;
  for (let to = 0; to < slots.length; ) {
    const first = slots[to]!;
    let run = 1;
    while (to + run < slots.length && slots[to + run] === first + run) run++;
    if (first !== to) {
      keys.copyWithin((base + to) * d, (base + first) * d, (base + first + run) * d);
      values.copyWithin((base + to) * d, (base + first) * d, (base + first + run) * d);
      positions.copyWithin(base + to, base + first, base + first + run);
    }
    to += run;
  }
}
