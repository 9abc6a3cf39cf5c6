import type { MatrixPart } from '@kv/checkpoints';
import { halves, mxfp4Scale, sixBits, tensorTypes, toFloat32, type TensorType } from '@kv/checkpoints';

/**
 * Rows of a weight in the form of ONNX Runtime's `MatMulNBits`: number = scale * (code - 2^(bits - 1)) + shift, in
 * blocks within a row.
 */
export interface Codes {
  readonly bits: 4 | 8;
  readonly block: 16 | 32;
  readonly rows: number;
  /** `[rows, blocks, block * bits / 8]`, the first code of a byte in its low bits. */
  readonly codes: Uint8Array;
  /** `[rows, blocks]` */
  readonly scales: Float32Array;
  /** `[blocks, rows]`, for types whose blocks have a minimum. */
  readonly shifts?: Float32Array;
}

/** Reads a number of the j-th block of codes inside the stored block that starts at byte `at`. */
type Read = (bytes: Uint8Array, at: number, j: number) => number;

/** A stored type as blocks of codes 0, 1, ...: number = scale * code + min. */
interface Form {
  readonly bits: 4 | 8;
  readonly block: 16 | 32;
  /** The middle code. */
  readonly middle: number;
  readonly scale: Read;
  /** Without it, min = -middle * scale. */
  readonly min?: Read;
}

const half =
  (at: number): Read =>
  (bytes, from) =>
    halves()[bytes[from + at] | (bytes[from + at + 1] << 8)];
const times =
  (a: Read, b: Read, sign = 1): Read =>
  (bytes, at, j) =>
    sign * a(bytes, at, j) * b(bytes, at, j);
const six =
  (part: 0 | 4): Read =>
  (bytes, at, j) =>
    sixBits(bytes, at + 4, j, part);
const superBlock = { block: 32, scale: times(half(0), six(0)), min: times(half(2), six(4), -1) } as const;

/** Block types as codes. All are exact except for the rounding of a scale to f32. */
const forms: Readonly<Partial<Record<TensorType, Form>>> = {
  Q4_0: { bits: 4, block: 32, middle: 8, scale: half(0) },
  Q4_1: { bits: 4, block: 32, middle: 8, scale: half(0), min: half(2) },
  Q5_0: { bits: 8, block: 32, middle: 16, scale: half(0) },
  Q5_1: { bits: 8, block: 32, middle: 16, scale: half(0), min: half(2) },
  Q8_0: { bits: 8, block: 32, middle: 128, scale: half(0) },
  IQ4_NL: { bits: 8, block: 32, middle: 128, scale: half(0) },
  MXFP4: { bits: 8, block: 32, middle: 128, scale: (bytes, at) => mxfp4Scale(bytes[at]) },
  Q4_K: { bits: 4, middle: 8, ...superBlock },
  Q5_K: { bits: 8, middle: 16, ...superBlock },
  Q6_K: {
    bits: 8,
    block: 16,
    middle: 32,
    scale: times(half(208), (bytes, at, j) => (bytes[at + 192 + j] << 24) >> 24),
  },
};

/** Returns the kind of product that a stored type needs, or undefined for plain numbers. */
export function kindOf(type: TensorType): string | undefined {
  const form = forms[type];
  return form && `${form.bits} bits, ${form.block}`;
}

const formOf = (type: TensorType): Form => forms[type]!; // asked for types that have a kind

/** Returns parts of one kind, concatenated by rows, as codes. */
export function codesOf(parts: readonly MatrixPart[], inputs: number): Codes {
  const { bits, block } = formOf(parts[0].type),
    blocks = inputs / block;
  const rows = parts.reduce((n, part) => n + part.rows, 0);
  const codes = new Uint8Array((rows * inputs * bits) / 8),
    scales = new Float32Array(rows * blocks);
  const shifts = parts.some(({ type }) => formOf(type).min) ? new Float32Array(rows * blocks) : undefined;
  const row = new Float32Array(inputs),
    zero = 2 ** (bits - 1),
    most = 2 ** bits - 1;
  let r = 0;
  for (const { type, bytes, rows: count } of parts) {
    const { middle, scale, min } = formOf(type),
      stored = tensorTypes[type],
      perStored = stored.numbers / block;
    const rowBytes = bytes.length / count;
    for (let i = 0; i < count; i++, r++) {
      toFloat32(type, bytes.subarray(i * rowBytes, (i + 1) * rowBytes), row);
      for (let b = 0; b < blocks; b++) {
        const at = i * rowBytes + Math.floor(b / perStored) * stored.bytes,
          j = b % perStored;
        const d = scale(bytes, at, j),
          shift = min === undefined ? 0 : min(bytes, at, j) + middle * d;
        scales[r * blocks + b] = d;
        if (shifts !== undefined) shifts[b * rows + r] = shift;
        for (let n = b * block; n < (b + 1) * block; n++) {
          const code = d === 0 ? zero : Math.min(most, Math.max(0, Math.round((row[n] - shift) / d) + zero));
          const to = r * inputs + n;
          if (bits === 8) codes[to] = code;
          else codes[to >> 1] = codes[to >> 1] | (code << (4 * (to & 1)));
        }
      }
    }
  }
  return { bits, block, rows, codes, scales, ...(shifts && { shifts }) };
}

/**
 * Rounds rows `[rows, inputs]` to 4 bits in blocks of 32: the number furthest from 0 becomes code 0, 8 steps below the
 * middle. The last block of a row may be short.
 */
export function fourBits(numbers: Float32Array, inputs: number): Codes {
  const block = 32,
    rows = numbers.length / inputs,
    blocks = Math.ceil(inputs / block);
  const codes = new Uint8Array(rows * blocks * (block / 2)).fill(0x88),
    scales = new Float32Array(rows * blocks);
  for (let r = 0; r < rows; r++)
    for (let b = 0; b < blocks; b++) {
      const part = numbers.subarray(r * inputs + b * block, r * inputs + Math.min(inputs, (b + 1) * block)),
        furthest = part.reduce((most, x) => (Math.abs(x) > Math.abs(most) ? x : most), 0),
        scale = Math.fround(furthest / -8);
      scales[r * blocks + b] = scale;
      if (scale === 0) continue;
      for (const [n, x] of part.entries()) {
        const code = Math.min(15, Math.max(0, Math.round(x / scale) + 8)),
          to = (r * blocks + b) * (block / 2) + (n >> 1),
          low = 4 * (n & 1);
        codes[to] = (codes[to] & ~(15 << low)) | (code << low);
      }
    }
  return { bits: 4, block, rows, codes, scales };
}
