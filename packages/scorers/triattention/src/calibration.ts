import type { PreRope } from './pre-rope.ts';

/**
 * Queries of one layer as attention reads them, `[H, m, d]`, with the angles of their rotation, cos and sin
 * `[m, half]`.
 */
export interface RotatedQueries {
  readonly q: Float32Array;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
  readonly half: number;
}

/**
 * Returns an accumulator of one layer's queries before rotation: turned back by their own angles, and divided by any
 * attention factor.
 *
 * @remarks TriAttention's calibration: E[q] and E[|q_f|] over all tokens alike, after any norm of the queries and
 * before rotation.
 */
export function calibration(heads: number, dim: number): { add(turned: RotatedQueries): void; take(): PreRope } {
  const mean = new Float64Array(heads * dim);
  let size = new Float64Array(0),
    count = 0,
    pairs = 0;
  return {
    add({ q, cos, sin, half }) {
      const m = q.length / (heads * dim);
      if (size.length === 0) {
        size = new Float64Array(heads * half);
        pairs = half;
      }
      for (let h = 0; h < heads; h++)
        for (let t = 0; t < m; t++) {
          const at = (h * m + t) * dim;
          for (let f = 0; f < half; f++) {
            const [c, s] = [cos[t * half + f], sin[t * half + f]],
              scale = Math.max(c * c + s * s, 1e-30),
              [a, b] = [q[at + f], q[at + half + f]];
            const [x, y] = [(a * c + b * s) / scale, (b * c - a * s) / scale];
            mean[h * dim + f] += x;
            mean[h * dim + half + f] += y;
            size[h * half + f] += Math.hypot(x, y);
          }
          for (let c = 2 * half; c < dim; c++) mean[h * dim + c] += q[at + c];
        }
      count += m;
    },
    take: () => ({
      mean: Float32Array.from(mean, (x) => x / Math.max(1, count)),
      size: Float32Array.from(size, (x) => x / Math.max(1, count)),
      half: pairs,
    }),
  };
}
