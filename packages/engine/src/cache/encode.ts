import { BLOCK, rowBytes, type RowForm } from './form.ts';

/** Rows of one or more KV heads, as they are stored: codes of all rows, and their scales, if the form has any. */
export interface Rows {
  readonly form: RowForm;
  readonly codes: Uint8Array;
  readonly scales: Uint8Array;
}

/** Returns rows of zeros. */
export function createRows(form: RowForm, d: number, count: number): Rows {
  const { codes, scales } = rowBytes(form, d);
  return { form, codes: new Uint8Array(count * codes), scales: new Uint8Array(count * scales) };
}

/** The largest number of half precision. */
const MOST_HALF = 0x7bff;
const f32 = new Float32Array(1),
  bits = new Uint32Array(f32.buffer);
const round = Math.fround;

/** Returns x in half precision, to the nearest, ties to even; what is larger than a half can be is the largest one. */
export function toHalf(x: number): number {
  // 2^-112 takes the exponent of f32 to that of a half, whose numbers below the normal ones f32 has there too
  f32[0] = Math.abs(x) * 2 ** -112;
  const [b] = bits,
    half = Math.min(MOST_HALF, (b + 0xfff + ((b >>> 13) & 1)) >>> 13);
  return x < 0 ? half | 0x8000 : half;
}

/** Returns the number that a half stores. */
export function fromHalf(half: number): number {
  bits[0] = (half & 0x7fff) << 13;
  return (half & 0x8000 ? -1 : 1) * f32[0] * 2 ** 112;
}

/** Returns x, less than 2^22 in size, rounded to the nearest whole number, ties to even. */
const whole = (x: number): number => round(round(x + 12_582_912) - 12_582_912);

/**
 * Stores vectors `x` `[n, d]` as rows, from row `at` on. All arithmetic is f32, as in kernels.
 */
export function encodeRows(rows: Rows, d: number, at: number, x: Float32Array): void {
  const n = x.length / d,
    bytes = rowBytes(rows.form, d),
    codes = rows.codes.subarray(at * bytes.codes, (at + n) * bytes.codes),
    scales = rows.scales.subarray(at * bytes.scales, (at + n) * bytes.scales);
  switch (rows.form) {
    case 'f32':
      codes.set(new Uint8Array(x.buffer, x.byteOffset, x.byteLength));
      return;
    case 'f16': {
      const to = words16(codes);
      for (let i = 0; i < x.length; i++) to[i] = toHalf(x[i]);
      return;
    }
    case 'q8': {
      const to = new Int8Array(codes.buffer, codes.byteOffset, codes.length),
        scale = floats(scales);
      for (let r = 0; r < n; r++) {
        let top = 0;
        for (let i = r * d; i < (r + 1) * d; i++) top = Math.max(top, Math.abs(x[i]));
        const inverse = round(127 / Math.max(top, round(1e-30)));
        scale[r] = top / 127;
        for (let i = r * d; i < (r + 1) * d; i++) to[i] = whole(round(x[i] * inverse));
      }
      return;
    }
    case 'q4': {
      const beside = words16(scales);
      for (let b = 0, i = 0; i < x.length; b++, i += BLOCK) {
        let [low, high] = [x[i], x[i]];
        for (let j = i + 1; j < i + BLOCK; j++) [low, high] = [Math.min(low, x[j]), Math.max(high, x[j])];
        beside[2 * b + 1] = toHalf(low);
        const from = fromHalf(beside[2 * b + 1]);
        beside[2 * b] = toHalf(round(round(high - from) / 15));
        const scale = fromHalf(beside[2 * b]),
          inverse = scale === 0 ? 0 : round(1 / scale),
          code = (j: number): number => Math.min(15, Math.max(0, whole(round(round(x[j] - from) * inverse))));
        // channel j lies with channel j + 16
        for (let j = 0; j < BLOCK / 2; j++) codes[i / 2 + j] = code(i + j) | (code(i + j + BLOCK / 2) << 4);
      }
    }
  }
}

/** Writes `n` stored rows, from row `at` on, as vectors to `out` `[n, d]`. */
export function decodeRows({ form, ...rows }: Rows, d: number, at: number, n: number, out: Float32Array): void {
  const bytes = rowBytes(form, d),
    codes = rows.codes.subarray(at * bytes.codes, (at + n) * bytes.codes),
    scales = rows.scales.subarray(at * bytes.scales, (at + n) * bytes.scales);
  switch (form) {
    case 'f32':
      out.set(floats(codes));
      return;
    case 'f16': {
      const from = words16(codes);
      for (let i = 0; i < n * d; i++) out[i] = fromHalf(from[i]);
      return;
    }
    case 'q8': {
      const from = new Int8Array(codes.buffer, codes.byteOffset, codes.length),
        scale = floats(scales);
      for (let r = 0; r < n; r++) for (let i = r * d; i < (r + 1) * d; i++) out[i] = from[i] * scale[r];
      return;
    }
    case 'q4': {
      const beside = words16(scales);
      for (let b = 0, i = 0; i < n * d; b++, i += BLOCK) {
        const [scale, low] = [fromHalf(beside[2 * b]), fromHalf(beside[2 * b + 1])];
        for (let j = 0; j < BLOCK / 2; j++) {
          const byte = codes[i / 2 + j];
          out[i + j] = round((byte & 15) * scale) + low;
          out[i + j + BLOCK / 2] = round((byte >> 4) * scale) + low;
        }
      }
    }
  }
}

/** Returns bytes as f32. */
export const floats = ({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array =>
  new Float32Array(buffer, byteOffset, byteLength / 4);
const words16 = ({ buffer, byteOffset, byteLength }: Uint8Array): Uint16Array =>
  new Uint16Array(buffer, byteOffset, byteLength / 2);

/** Half of the distance between a number of 1 and the next half. */
export const HALF_ULP = 2 ** -11;

/**
 * Returns a bound on the length of what rounding has taken off a row: the largest of `n` stored rows, from row `at` on. 0
 * for f32.
 */
export function roundingBound(rows: Rows, d: number, at: number, n: number): number {
  const { form } = rows,
    bytes = rowBytes(form, d),
    scales = rows.scales.slice(at * bytes.scales, (at + n) * bytes.scales);
  if (form === 'f32') return 0;
  let most = 0;
  if (form === 'q8') {
    // half a step a channel, and the rounding of the products themselves
    for (const scale of floats(scales)) most = Math.max(most, scale);
    return 0.501 * most * Math.sqrt(d);
  }
  if (form === 'f16') {
    const x = new Float32Array(n * d);
    decodeRows(rows, d, at, n, x);
    for (let r = 0; r < n; r++) {
      let sum = 0;
      // numbers below the normal ones have steps of 2^-24
      for (let i = r * d; i < (r + 1) * d; i++) sum += (HALF_ULP * Math.abs(x[i]) + 2 ** -25) ** 2;
      most = Math.max(most, sum);
    }
    return Math.sqrt(most);
  }
  const halves = words16(scales),
    blocks = d / BLOCK;
  for (let r = 0; r < n; r++) {
    let sum = 0;
    for (let b = r * blocks; b < (r + 1) * blocks; b++) {
      const [scale, low] = [fromHalf(halves[2 * b]), fromHalf(halves[2 * b + 1])];
      // half a step; the last step where the scale was rounded down; the minimum's own rounding
      sum += BLOCK * (0.501 * scale + 15 * (HALF_ULP * scale + 2 ** -25) + HALF_ULP * Math.abs(low) + 2 ** -25) ** 2;
    }
    most = Math.max(most, sum);
  }
  return Math.sqrt(most);
}
