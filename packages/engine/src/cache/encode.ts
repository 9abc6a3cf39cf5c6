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

/** The largest number of half precision, as a half. */
const MOST_HALF = 0x7bff;
/** That number: what is stored as it may have been any larger one. */
export const MOST_IN_HALF = 65_504;
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
const whole = (x: number): number => round(x + 12_582_912) - 12_582_912;

/** The same bytes as numbers of every kind that rows consist of. Begins at a multiple of 4. */
export interface NumberViews {
  readonly u8: Uint8Array;
  readonly i8: Int8Array;
  readonly u16: Uint16Array;
  readonly f32: Float32Array;
}

/** Returns bytes as numbers of every kind; f32 as far as whole numbers go. */
export const viewsOf = ({ buffer, byteOffset, byteLength }: Uint8Array): NumberViews => ({
  u8: new Uint8Array(buffer, byteOffset, byteLength),
  i8: new Int8Array(buffer, byteOffset, byteLength),
  u16: new Uint16Array(buffer, byteOffset, byteLength >>> 1),
  f32: new Float32Array(buffer, byteOffset, byteLength >>> 2),
});

/**
 * Stores the vector at `from` of x as a row, whose codes and scales begin at these bytes. All arithmetic is f32, as in
 * kernels. Allocates nothing: a demotion stores each slot by itself.
 */
export function encodeRow(
  form: RowForm,
  d: number,
  x: Float32Array,
  from: number,
  codes: NumberViews,
  codesAt: number,
  scales: NumberViews,
  scalesAt: number,
): void {
  switch (form) {
    case 'f32':
      for (let i = 0, to = codesAt >>> 2; i < d; i++) codes.f32[to + i] = x[from + i];
      return;
    case 'f16':
      for (let i = 0, to = codesAt >>> 1; i < d; i++) codes.u16[to + i] = toHalf(x[from + i]);
      return;
    case 'q8': {
      let top = 0;
      for (let i = from; i < from + d; i++) top = Math.max(top, Math.abs(x[i]));
      const inverse = round(127 / Math.max(top, round(1e-30)));
      scales.f32[scalesAt >>> 2] = top / 127;
      for (let i = 0; i < d; i++) codes.i8[codesAt + i] = whole(round(x[from + i] * inverse));
      return;
    }
    case 'q4':
      for (let block = 0; block < d; block += BLOCK) {
        const first = from + block,
          beside = (scalesAt >>> 1) + (2 * block) / BLOCK;
        let low = x[first],
          high = low;
        for (let i = first + 1; i < first + BLOCK; i++) {
          low = Math.min(low, x[i]);
          high = Math.max(high, x[i]);
        }
        const lowHalf = toHalf(low),
          start = fromHalf(lowHalf),
          scaleHalf = toHalf(round(round(high - start) / 15)),
          scale = fromHalf(scaleHalf),
          inverse = scale === 0 ? 0 : round(1 / scale);
        scales.u16[beside] = scaleHalf;
        scales.u16[beside + 1] = lowHalf;
        // channel j lies with channel j + 16
        for (let j = 0, to = codesAt + block / 2; j < BLOCK / 2; j++)
          codes.u8[to + j] =
            nibble(x[first + j], start, inverse) | (nibble(x[first + j + BLOCK / 2], start, inverse) << 4);
      }
  }
}

/** Returns the code of 4 bits of a number. */
function nibble(x: number, low: number, inverse: number): number {
  const code = whole(round(round(x - low) * inverse));
  return code > 15 ? 15 : code > 0 ? code : 0;
}

/** Writes the row whose codes and scales begin at these bytes as a vector to `out`, from `to` on. Allocates nothing. */
export function decodeRow(
  form: RowForm,
  d: number,
  codes: NumberViews,
  codesAt: number,
  scales: NumberViews,
  scalesAt: number,
  out: Float32Array,
  to: number,
): void {
  switch (form) {
    case 'f32':
      for (let i = 0, from = codesAt >>> 2; i < d; i++) out[to + i] = codes.f32[from + i];
      return;
    case 'f16':
      for (let i = 0, from = codesAt >>> 1; i < d; i++) out[to + i] = fromHalf(codes.u16[from + i]);
      return;
    case 'q8': {
      const scale = scales.f32[scalesAt >>> 2];
      for (let i = 0; i < d; i++) out[to + i] = codes.i8[codesAt + i] * scale;
      return;
    }
    case 'q4':
      for (let block = 0; block < d; block += BLOCK) {
        const beside = (scalesAt >>> 1) + (2 * block) / BLOCK,
          scale = fromHalf(scales.u16[beside]),
          low = fromHalf(scales.u16[beside + 1]);
        for (let j = 0, from = codesAt + block / 2, at = to + block; j < BLOCK / 2; j++) {
          const byte = codes.u8[from + j];
          out[at + j] = round((byte & 15) * scale) + low;
          out[at + j + BLOCK / 2] = round((byte >> 4) * scale) + low;
        }
      }
  }
}

/** Stores vectors `x` `[n, d]` as rows, from row `at` on. */
export function encodeRows(rows: Rows, d: number, at: number, x: Float32Array): void {
  const bytes = rowBytes(rows.form, d),
    [codes, scales] = [viewsOf(rows.codes), viewsOf(rows.scales)];
  for (let r = 0; r * d < x.length; r++)
    encodeRow(rows.form, d, x, r * d, codes, (at + r) * bytes.codes, scales, (at + r) * bytes.scales);
}

/** Writes `n` stored rows, from row `at` on, as vectors to `out` `[n, d]`. */
export function decodeRows(rows: Rows, d: number, at: number, n: number, out: Float32Array): void {
  const bytes = rowBytes(rows.form, d),
    [codes, scales] = [viewsOf(rows.codes), viewsOf(rows.scales)];
  for (let r = 0; r < n; r++)
    decodeRow(rows.form, d, codes, (at + r) * bytes.codes, scales, (at + r) * bytes.scales, out, r * d);
}

/** Returns bytes as f32. */
export const floats = ({ buffer, byteOffset, byteLength }: Uint8Array): Float32Array =>
  new Float32Array(buffer, byteOffset, byteLength / 4);
const words16 = ({ buffer, byteOffset, byteLength }: Uint8Array): Uint16Array =>
  new Uint16Array(buffer, byteOffset, byteLength / 2);

const isMostInHalf = (x: number): boolean => Math.abs(x) === MOST_IN_HALF;

/** Half of the distance between a number of 1 and the next half. */
export const HALF_ULP = 2 ** -11;

/**
 * Returns a bound on the length of what rounding has taken off a row: the largest of `n` stored rows, from row `at` on. 0
 * for f32, Infinity where a half is as large as a half can be.
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
    if (x.some(isMostInHalf)) return Infinity;
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
      if (isMostInHalf(scale) || isMostInHalf(low)) return Infinity;
      // half a step; the last step where the scale was rounded down; the minimum's own rounding
      sum += BLOCK * (0.501 * scale + 15 * (HALF_ULP * scale + 2 ** -25) + HALF_ULP * Math.abs(low) + 2 ** -25) ** 2;
    }
    most = Math.max(most, sum);
  }
  return Math.sqrt(most);
}
