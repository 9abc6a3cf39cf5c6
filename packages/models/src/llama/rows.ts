/** RMS normalisation of each row: x / sqrt(mean(x²) + eps) * gain. x `[rows, gain.length]` f32, sum in f64; a new array. */
export function rmsNorm(x: Float32Array, gain: Float32Array, eps: number): Float32Array {
  const width = gain.length;
  const out = new Float32Array(x.length);
  for (let at = 0; at < x.length; at += width) {
    let sum = 0;
    for (let i = 0; i < width; i++) sum += x[at + i]! * x[at + i]!;
    const scale = 1 / Math.sqrt(sum / width + eps);
    for (let i = 0; i < width; i++) out[at + i] = x[at + i]! * scale * gain[i]!;
  }
  return out;
}

/** x += y; returns x. */
export function addInto(x: Float32Array, y: Float32Array): Float32Array {
  for (let i = 0; i < x.length; i++) x[i] = x[i]! + y[i]!;
  return x;
}
