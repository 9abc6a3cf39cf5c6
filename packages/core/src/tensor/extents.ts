/** Computes Σ |x_c| of each channel over x `[n, d]`, in f64: `[d]`. */
export function channelSizes(x: Float32Array, d: number, out: Float32Array): void {
  const sums = new Float64Array(d);
  for (let i = 0; i < x.length; i += d) for (let c = 0; c < d; c++) sums[c] += Math.abs(x[i + c]);
  out.set(sums);
}

/** Computes the minimum and maximum of each channel over every `size` vectors of x `[n, d]`: `[⌈n / size⌉, d]` each. */
export function extents(x: Float32Array, d: number, size: number, low: Float32Array, high: Float32Array): void {
  for (let i = 0; i * d < x.length; i++)
    for (let c = 0, to = Math.floor(i / size) * d; c < d; c++, to++) {
      const v = x[i * d + c];
      low[to] = i % size === 0 ? v : Math.min(low[to], v);
      high[to] = i % size === 0 ? v : Math.max(high[to], v);
    }
}
