import { createKernel, growTo } from '../simd/kernel.ts';
import { blockRows } from './block-rows.ts';
import type { RowEngine } from './row-engine.ts';

/** Slots whose values are mixed at a time: they stay in the first-level cache, and f32 sums stay short. */
const mixBlock = 256;

/** Query rows from which on packing the keys pays. */
const packFrom = 4;

/**
 * This package's WebAssembly SIMD kernel: f32 products, softmax sums and column sums in f64. Its memory holds one KV
 * head and grows with it.
 */
export function simdEngine(): RowEngine {
  const kernel = createKernel();
  let memory = new Float32Array(0);
  let sums = new Float64Array(0);
  // Byte offsets of this head's regions; n slots padded to `wide`, d to `deep`, multiples of 8; `wide` is no
  // multiple of a page for any usual n, since score rows a page apart would share cache sets.
  let [n, d, wide, deep] = [0, 0, 0, 0];
  let [values, keys, scores, query, mixed, sum, max] = [0, 0, 0, 0, 0, 0, 0];
  let packed = false;

  const place = (): void => {
    let end = 64;
    const region = (bytes: number): number => {
      const at = end;
      end += 64 * Math.ceil(bytes / 64);
      return at;
    };
    values = region(4 * wide * deep);
    keys = region(4 * wide * deep);
    scores = region(4 * blockRows * wide);
    query = region(4 * blockRows * deep);
    mixed = region(4 * blockRows * deep);
    sum = region(8 * wide);
    max = region(4 * wide);
    growTo(kernel.memory, end);
    if (memory.buffer !== kernel.memory.buffer) {
      memory = new Float32Array(kernel.memory.buffer);
      sums = new Float64Array(kernel.memory.buffer);
    }
  };
  /** Rows `[rows, d]` to `[rows, deep]`, times `scale`. */
  const copyIn = (from: Float32Array, rows: number, to: number): void => {
    const at = to / 4;
    if (d === deep) memory.set(from, at);
    else
      for (let r = 0; r < rows; r++) {
        memory.fill(0, at + r * deep + d, at + (r + 1) * deep);
        memory.set(from.subarray(r * d, (r + 1) * d), at + r * deep);
      }
  };

  return {
    open(k, v, slots, width, queries) {
      [n, d, wide, deep] = [slots, width, pad(slots) + 16, pad(width)];
      packed = queries >= packFrom;
      place();
      // Packing reads the raw keys from where the values go next.
      copyIn(k, n, packed ? values : keys);
      if (packed) kernel.pack(values, n, deep, keys);
      if (v !== undefined) copyIn(v, n, values);
      sums.fill(0, sum / 8, sum / 8 + n);
      memory.fill(0, max / 4, max / 4 + n);
    },
    score(q, rows, end, scale) {
      copyIn(q, rows, query);
      const at = query / 4;
      for (let i = 0; i < rows * deep; i++) memory[at + i] = memory[at + i] * scale;
      if (packed) kernel.gemm(rows, pad(end), deep, query, 4 * deep, keys, 32, 32 * deep, scores, 4 * wide, 1);
      else for (let r = 0; r < rows; r++) kernel.dots(query + 4 * r * deep, keys, end, deep, scores + 4 * r * wide);
      return { data: memory, at: scores / 4, stride: wide };
    },
    softmax: (row, hi, end) => kernel.softmax(scores + 4 * row * wide, 0, hi, pad(end)),
    addColumns: (rows, end, top) => kernel.columns(scores, 4 * wide, rows, pad(end), sum, top ? max : 0),
    takeColumns(slots) {
      const taken = { sum: sums.slice(sum / 8, sum / 8 + slots), max: memory.slice(max / 4, max / 4 + slots) };
      sums.fill(0, sum / 8, sum / 8 + wide);
      memory.fill(0, max / 4, max / 4 + wide);
      return taken;
    },
    mix(rows, end, out, at, stride) {
      if (end === 0) return;
      for (let j = 0; j < end; j += mixBlock) {
        const k = Math.min(mixBlock, end - j);
        kernel.gemm(
          rows,
          deep,
          k,
          scores + 4 * j,
          4 * wide,
          values + 4 * j * deep,
          4 * deep,
          32,
          mixed,
          4 * deep,
          j === 0 ? 1 : 0,
        );
      }
      const from = mixed / 4;
      for (let r = 0; r < rows; r++) out.set(memory.subarray(from + r * deep, from + r * deep + d), at + r * stride);
    },
  };
}

function pad(slots: number): number {
  return 8 * Math.ceil(slots / 8);
}
