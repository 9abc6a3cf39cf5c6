import { blockRows } from '@kv/engine';
import type { RowEngine } from '@kv/engine';
import type { ThreadPool } from './thread-pool.ts';
import { GrowableBuffer } from './workspace.ts';

/** Slots whose values are mixed at a time, so that they stay in the first-level cache. */
const mixBlock = 128;

/** Query rows from which on packing the keys is faster. */
const packFrom = 4;

/**
 * Returns attention's row arithmetic in the module, on the calling thread: products in f32, softmax sums and column
 * sums in f64. Keys and values in the pool's memory are read in place, others are copied.
 */
export function heapRowEngine(pool: Pick<ThreadPool, 'heap' | 'kernels' | 'threads'>): RowEngine {
  const { heap, kernels } = pool,
    room = new GrowableBuffer(pool);
  // Numbers of the room, and byte offsets of its regions. Vectors of d are padded to `deep`, a multiple of 4; score rows
  // to `wide`, which is no multiple of a page for any usual n: rows a page apart would share cache sets.
  let memory: Float32Array = new Float32Array(0),
    sums: Float64Array = new Float64Array(0);
  let [d, deep, wide] = [0, 0, 0];
  let [keys, values, scores, query, mixed, top] = [0, 0, 0, 0, 0, 0];
  let packed = false;

  /** Returns the index of an address in `memory`. */
  const index = (address: number): number => (address - memory.byteOffset) / 4;
  /** Copies rows `[rows, d]` to `[rows, deep]`. */
  const copyIn = (from: Float32Array, rows: number, to: number): void => {
    const at = index(to);
    if (d === deep) memory.set(from, at);
    else
      for (let r = 0; r < rows; r++) {
        memory.fill(0, at + r * deep + d, at + (r + 1) * deep);
        memory.set(from.subarray(r * d, (r + 1) * d), at + r * deep);
      }
  };

  return {
    open(k, v, n, width, queries) {
      [d, deep, wide] = [width, upTo(width, 4), upTo(n, 8) + 16];
      packed = queries >= packFrom;
      const inPlace = (x: Float32Array | undefined): boolean => x !== undefined && d === deep && heap.holds(x),
        sizes = [
          4 * upTo(n, 8) * deep,
          inPlace(k) && (v === undefined || inPlace(v)) ? 0 : 4 * n * deep,
          4 * blockRows * wide,
          4 * blockRows * deep,
          4 * blockRows * deep,
          4 * wide,
          8 * wide,
        ].map((bytes) => upTo(bytes, 64)),
        bytes = sizes.reduce((sum, size) => sum + size, 0);
      let end = room.at(bytes);
      memory = heap.floats(end, bytes / 4);
      const places = sizes.map((size) => (end += size) - size);
      [keys, values, scores, query, mixed, top] = places as [number, number, number, number, number, number];
      sums = heap.doubles(places[6], wide);
      // packing reads copied keys from where the values go next
      const from = inPlace(k) ? k.byteOffset : packed ? values : keys;
      if (!inPlace(k)) copyIn(k, n, from);
      if (packed) kernels.packKeys(from, n, deep, keys);
      else keys = from;
      if (v !== undefined && inPlace(v)) values = v.byteOffset;
      else if (v !== undefined) copyIn(v, n, values);
      sums.fill(0);
      memory.fill(0, index(top), index(top) + wide);
    },
    score(q, rows, end, scale) {
      copyIn(q, rows, query);
      const at = index(query),
        four = upTo(rows, 4);
      for (let i = at; i < at + rows * deep; i++) memory[i] = memory[i] * scale;
      memory.fill(0, at + rows * deep, at + four * deep);
      if (packed) kernels.scorePacked(query, four, keys, upTo(end, 8), deep, scores, 4 * wide);
      else
        for (let r = 0; r < rows; r++) kernels.scoreOne(query + 4 * r * deep, keys, end, deep, scores + 4 * r * wide);
      return { data: memory, at: index(scores), stride: wide };
    },
    softmax: (row, hi, end, sink) => kernels.softmax(scores + 4 * row * wide, hi, upTo(end, 8), sink),
    addColumns: (rows, end, max) =>
      kernels.columns(scores, 4 * wide, rows, upTo(end, 8), sums.byteOffset, max ? top : 0),
    takeColumns(slots) {
      const at = index(top),
        taken = { sum: sums.slice(0, slots), max: memory.slice(at, at + slots) };
      sums.fill(0);
      memory.fill(0, at, at + wide);
      return taken;
    },
    mix(rows, end, out, at, stride) {
      const from = index(mixed),
        four = upTo(rows, 4);
      memory.fill(0, from, from + four * deep);
      for (let j = 0; j < end; j += mixBlock)
        kernels.mixRows(
          ...([four, Math.min(mixBlock, end - j), scores + 4 * j, 4 * wide] as const),
          ...([values + 4 * j * deep, 4 * deep, mixed, 4 * deep] as const),
        );
      for (let r = 0; r < rows; r++) out.set(memory.subarray(from + r * deep, from + r * deep + d), at + r * stride);
    },
  };
}

const upTo = (n: number, of: number): number => of * Math.ceil(n / of);
