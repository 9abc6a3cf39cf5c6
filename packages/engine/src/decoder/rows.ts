/**
 * Returns the RMS normalisation of each run of numbers: x / sqrt(mean(x²) + eps) * gain, sum in f64; a new array.
 * @param gain of one run, or of as many as lie in a row
 * @param run @defaultValue all of `gain`
 */
export function rmsNorm(x: Float32Array, gain: Float32Array, eps: number, run: number = gain.length): Float32Array {
  const out = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += run) {
    let sum = 0;
    for (let i = at; i < at + run; i++) sum += x[i] * x[i];
    const scale = 1 / Math.sqrt(sum / run + eps);
    for (let i = 0, g = at % gain.length; i < run; i++) out[at + i] = x[at + i] * scale * gain[g + i];
  }
  return out;
}

/** Adds `bias` to every row of x; returns x. */
export function addBias(x: Float32Array, bias: Float32Array): Float32Array {
  for (let at = 0; at < x.length; at += bias.length)
    for (let i = 0; i < bias.length; i++) x[at + i] = x[at + i] + bias[i];
  return x;
}

/** Returns columns [from, from + count) of rows of `width` numbers. */
export function columns(x: Float32Array, width: number, from: number, count: number): Float32Array {
  const rows = x.length / width,
    out = new Float32Array(rows * count);
  for (let r = 0; r < rows; r++) out.set(x.subarray(r * width + from, r * width + from + count), r * count);
  return out;
}
