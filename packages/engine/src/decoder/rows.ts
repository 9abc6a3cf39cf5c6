/** Rows inside a larger array, f32: row r is the `width` numbers from `at + r * stride`. */
export interface RowView {
  readonly data: Float32Array;
  readonly at: number;
  readonly stride: number;
  readonly width: number;
}

/** Rows that fill an array. */
export const rowsOf = (data: Float32Array, width: number): RowView => ({ data, at: 0, stride: width, width });

/** The first m rows in an array of their own; the array itself if they fill it. */
export function compact({ data, at, stride, width }: RowView, m: number): Float32Array {
  if (stride === width && at === 0 && data.length === m * width) return data;
  const out = new Float32Array(m * width);
  for (let r = 0; r < m; r++) out.set(data.subarray(at + r * stride, at + r * stride + width), r * width);
  return out;
}

/**
 * RMS normalisation of each run of `gain.length` numbers of m rows: x / sqrt(mean(x²) + eps) * gain, sum in f64; a new
 * array `[m, width]`.
 */
export function rmsNorm(
  { data: x, at, stride, width }: RowView,
  m: number,
  gain: Float32Array,
  eps: number,
): Float32Array {
  const run = gain.length;
  const out = new Float32Array(m * width);
  for (let r = 0; r < m; r++)
    for (let from = at + r * stride, to = r * width; to < (r + 1) * width; from += run, to += run) {
      let sum = 0;
      for (let i = 0; i < run; i++) sum += x[from + i] * x[from + i];
      const scale = 1 / Math.sqrt(sum / run + eps);
      for (let i = 0; i < run; i++) out[to + i] = x[from + i] * scale * gain[i];
    }
  return out;
}

/** x += y; returns x. */
export function addInto(x: Float32Array, y: Float32Array): Float32Array {
  for (let i = 0; i < x.length; i++) x[i] = x[i] + y[i];
  return x;
}

/** Adds `bias` to every row of x; returns x. */
export function addBias(x: Float32Array, bias: Float32Array): Float32Array {
  for (let at = 0; at < x.length; at += bias.length)
    for (let i = 0; i < bias.length; i++) x[at + i] = x[at + i] + bias[i];
  return x;
}
