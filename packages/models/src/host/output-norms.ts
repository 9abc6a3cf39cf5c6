import type { LayerCache } from '../cache.ts';

/**
 * |v W_O|_1 of every cached value through each query head's columns of the output product `[D, H * d]`: `[H, n]`, in
 * f64 sums.
 */
export function outputNorms(
  { values, heads: G, headDim: d, capacity, length: n, lengths }: LayerCache,
  weight: Float32Array,
  queryHeads: number,
): Float32Array {
  const out = new Float32Array(queryHeads * n),
    width = queryHeads * d,
    D = weight.length / width;
  for (let h = 0; h < queryHeads; h++) {
    const g = Math.floor((h * G) / queryHeads);
    for (let i = 0; i < lengths[g]; i++) {
      const from = (g * capacity + i) * d;
      let total = 0;
      for (let j = 0; j < D; j++) {
        let y = 0;
        for (let c = 0, at = j * width + h * d; c < d; c++) y += weight[at + c] * values[from + c];
        total += Math.abs(y);
      }
      out[h * n + i] = total;
    }
  }
  return out;
}
