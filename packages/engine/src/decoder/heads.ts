import type { Angles } from './program.ts';
import type { RowView } from './rows.ts';

/** Where head h of row r goes. */
type Place = (h: number, r: number) => number;

/**
 * Rotate-half rotary positions (RoFormer, arXiv 2104.09864): pair (i, i + rotary / 2) of every head turns by the row's
 * angles; the rest is copied.
 */
function turn(
  { data: x, at, stride, width }: RowView,
  m: number,
  headDim: number,
  { rotary, cos, sin }: Angles,
  out: Float32Array,
  place: Place,
): Float32Array {
  const half = rotary / 2;
  for (let r = 0; r < m; r++)
    for (let h = 0; h * headDim < width; h++) {
      const from = at + r * stride + h * headDim,
        to = place(h, r);
      for (let i = 0; i < half; i++) {
        const a = x[from + i],
          b = x[from + half + i],
          c = cos[r * half + i],
          s = sin[r * half + i];
        out[to + i] = a * c - b * s;
        out[to + half + i] = b * c + a * s;
      }
      for (let i = rotary; i < headDim; i++) out[to + i] = x[from + i];
    }
  return out;
}

/** Turned rows `[m, H * d]`. */
export function turnRows(x: RowView, m: number, headDim: number, angles: Angles): Float32Array {
  return turn(x, m, headDim, angles, new Float32Array(m * x.width), (h, r) => r * x.width + h * headDim);
}

/** Turned rows in the layout of heads, `[H, m, d]`. */
export function turnHeads(x: RowView, m: number, headDim: number, angles: Angles): Float32Array {
  return turn(x, m, headDim, angles, new Float32Array(m * x.width), (h, r) => (h * m + r) * headDim);
}

/** Rows `[m, H * d]` in the layout of heads, `[H, m, d]`. */
export function toHeads({ data, at, stride, width }: RowView, m: number, headDim: number): Float32Array {
  const out = new Float32Array(m * width);
  for (let r = 0; r < m; r++)
    for (let h = 0; h * headDim < width; h++) {
      const from = at + r * stride + h * headDim;
      out.set(data.subarray(from, from + headDim), (h * m + r) * headDim);
    }
  return out;
}
