import type { Angles } from '@kv/engine';
import type { Heap } from './heap.ts';
import type { BufferSlice } from './layout.ts';

/** Rows in a heap: row r starts at r * stride. */
export interface HeapRows {
  readonly data: Float32Array;
  readonly stride: number;
}

/** Returns the rows of a buffer, or the first thread's where each has its own. */
export const rowsAt = (
  heap: Heap,
  { shared, own }: { readonly shared: number; readonly own: number },
  { base, at, stride }: BufferSlice,
  rows: number,
): HeapRows => ({ data: heap.floats((base === 1 ? shared : own) + at, (rows * stride) / 4), stride: stride / 4 });

/** Copies contiguous rows `[rows, width]` to rows in a heap. */
export function copyRows(from: Float32Array, width: number, { data, stride }: HeapRows, rows: number): void {
  for (let r = 0; r < rows; r++) data.set(from.subarray(r * width, (r + 1) * width), r * stride);
}

/** Returns the angles, and scales, of `count` rows from row `from` on. */
export function angleRows({ rotary, cos, sin, scales }: Angles, from: number, count: number): Angles {
  const rows = (x: Float32Array, width: number): Float32Array => x.subarray(from * width, (from + count) * width),
    half = rotary / 2;
  return { rotary, cos: rows(cos, half), sin: rows(sin, half), ...(scales && { scales: rows(scales, 1) }) };
}
