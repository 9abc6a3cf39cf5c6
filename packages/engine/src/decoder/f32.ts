const { fround } = Math,
  value = new Float32Array(1),
  bits = new Int32Array(value.buffer);

/** The polynomial of e^x - 1 - x near 0, over x². */
const powers = [1.98756915e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1].map(
    fround,
  ),
  /** That of (ln(1 + u) / 2s - 1) / s² in s², where s = u / (2 + u). */
  odds = [15, 13, 11, 9, 7, 5, 3].map((n) => fround(1 / n)),
  [log2e, ln2, ln2Rest] = [Math.LOG2E, 0.693359375, -2.1219444e-4].map(fround);

/**
 * Returns e^x within about 1 ulp, 0 below -87 and e^88 above 88. Like all functions here it rounds every step to f32, in
 * the order in which kernel/forms.ts of @kv/engine-wasm takes them, and gives the same to the bit.
 */
export function exp(x: number): number {
  if (x < -87) return 0;
  const at = Math.min(x, 88),
    power = fround(fround(fround(at * log2e) + 12582912) - 12582912),
    rest = fround(fround(at - fround(power * ln2)) - fround(power * ln2Rest));
  let y = powers[0];
  for (let i = 1; i < 6; i++) y = fround(fround(y * rest) + powers[i]);
  value[0] = fround(fround(fround(y * fround(rest * rest)) + rest) + 1);
  bits[0] += power << 23;
  return value[0];
}

/** Returns 1 / (1 + e^-x). */
export function sigmoid(x: number): number {
  const e = exp(-Math.abs(x));
  return fround((x >= 0 ? 1 : e) / fround(1 + e));
}

/** Returns ln(1 + e^x). */
export function softplus(x: number): number {
  const e = exp(-Math.abs(x)),
    s = fround(e / fround(2 + e)),
    square = fround(s * s);
  let y = odds[0];
  for (let i = 1; i < 7; i++) y = fround(fround(y * square) + odds[i]);
  return fround(Math.max(x, 0) + fround(fround(2 * s) * fround(fround(y * square) + 1)));
}

/** Returns x * sigmoid(x). */
export const silu = (x: number): number => fround(x * sigmoid(x));

/** Returns the sum of x² over `count` numbers from `at` on: those a multiple of four apart first. */
export function squares(x: Float32Array, at: number, count: number): number {
  const lanes = [0, 0, 0, 0];
  for (let i = 0; i < count; i++) lanes[i & 3] = fround(lanes[i & 3] + fround(x[at + i] * x[at + i]));
  return fround(fround(lanes[0] + lanes[1]) + fround(lanes[2] + lanes[3]));
}
