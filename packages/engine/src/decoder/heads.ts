import type { Angles } from './program.ts';

/**
 * Applies rotate-half rotary positions (RoFormer, arXiv 2104.09864): pair (i, i + rotary / 2) of every head of a row is
 * rotated by the row's angles; the rest is copied. With scales all of a row is multiplied by its own, too. x `[m, H * d]`,
 * to a new array.
 */
export function turnRows(
  x: Float32Array,
  m: number,
  headDim: number,
  { rotary, cos, sin, scales }: Angles,
): Float32Array {
  const half = rotary / 2,
    width = x.length / m,
    out = x.slice();
  for (let r = 0; r < m; r++)
    for (let at = r * width; at < (r + 1) * width; at += headDim)
      for (let i = 0; i < half; i++) {
        const a = x[at + i],
          b = x[at + half + i],
          c = cos[r * half + i],
          s = sin[r * half + i];
        out[at + i] = a * c - b * s;
        out[at + half + i] = b * c + a * s;
      }
  return scales ? out.map((value, i) => value * scales[Math.floor(i / width)]) : out;
}

/** Converts rows `[m, H * d]` to the layout of heads, `[H, m, d]`. */
export function toHeads(x: Float32Array, m: number, headDim: number): Float32Array {
  const out = new Float32Array(x.length),
    width = x.length / m;
  for (let r = 0; r < m; r++)
    for (let h = 0; h * headDim < width; h++) {
      const from = r * width + h * headDim;
      out.set(x.subarray(from, from + headDim), (h * m + r) * headDim);
    }
  return out;
}
