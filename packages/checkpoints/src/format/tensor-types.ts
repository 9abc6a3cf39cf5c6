import { KvError } from '@kv/core';
import { iq4_nl, mxfp4, q4_0, q4_1, q5_0, q5_1, q8_0, type BlockDecoder } from './blocks.ts';
import { halves } from './halves.ts';
import { q4_k, q5_k, q6_k } from './k-blocks.ts';

/** Types in which weights are stored; block types have ggml's names. */
export type TensorType =
  | 'F32'
  | 'F16'
  | 'BF16'
  | 'Q8_0'
  | 'Q4_0'
  | 'Q4_1'
  | 'Q5_0'
  | 'Q5_1'
  | 'Q4_K'
  | 'Q5_K'
  | 'Q6_K'
  | 'IQ4_NL'
  | 'MXFP4';

/** Memory layout of a type. */
export interface TensorLayout {
  /** Numbers per block; rows hold whole blocks. */
  readonly numbers: number;
  /** Bytes per block. */
  readonly bytes: number;
}

/** Layout of each type. */
export const tensorTypes: Readonly<Record<TensorType, TensorLayout>> = {
  F32: { numbers: 1, bytes: 4 },
  F16: { numbers: 1, bytes: 2 },
  BF16: { numbers: 1, bytes: 2 },
  Q8_0: { numbers: 32, bytes: 34 },
  Q4_0: { numbers: 32, bytes: 18 },
  Q4_1: { numbers: 32, bytes: 20 },
  Q5_0: { numbers: 32, bytes: 22 },
  Q5_1: { numbers: 32, bytes: 24 },
  Q4_K: { numbers: 256, bytes: 144 },
  Q5_K: { numbers: 256, bytes: 176 },
  Q6_K: { numbers: 256, bytes: 210 },
  IQ4_NL: { numbers: 32, bytes: 18 },
  MXFP4: { numbers: 32, bytes: 17 },
};

const f16: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let i = 0; i < count; i++) out[i] = half[bytes[2 * i] | (bytes[2 * i + 1] << 8)];
};

const bf16: BlockDecoder = (bytes, out, count) => {
  const bits = new Uint32Array(out.buffer, out.byteOffset, count);
  for (let i = 0; i < count; i++) bits[i] = (bytes[2 * i] << 16) | (bytes[2 * i + 1] << 24);
};

const f32: BlockDecoder = (bytes, out, count) => new Uint8Array(out.buffer, out.byteOffset, 4 * count).set(bytes);

const decoders: Readonly<Record<TensorType, BlockDecoder>> = {
  F32: f32,
  F16: f16,
  BF16: bf16,
  Q8_0: q8_0,
  Q4_0: q4_0,
  Q4_1: q4_1,
  Q5_0: q5_0,
  Q5_1: q5_1,
  Q4_K: q4_k,
  Q5_K: q5_k,
  Q6_K: q6_k,
  IQ4_NL: iq4_nl,
  MXFP4: mxfp4,
};

/** Offsets of the halves that scale or shift a block, from the block's first byte. */
const scalesAt: Readonly<Record<Exclude<TensorType, 'F32' | 'BF16' | 'MXFP4'>, readonly number[]>> = {
  F16: [0],
  Q8_0: [0],
  Q4_0: [0],
  Q4_1: [0, 2],
  Q5_0: [0],
  Q5_1: [0, 2],
  Q4_K: [0, 2],
  Q5_K: [0, 2],
  Q6_K: [208],
  IQ4_NL: [0],
};

/** Checks that a tensor's type can be read as a weight. @throws KvError naming the type if not */
export function weightType(type: string, at: string): TensorType {
  if (Object.hasOwn(tensorTypes, type)) return type as TensorType;
  throw new KvError(at, `type must be one of ${Object.keys(tensorTypes).join(', ')}, got ${type}`);
}

/**
 * Decodes whole blocks to f32, into `out` if given; without it, bytes that already are f32 may be returned as a view.
 * @throws KvError for a broken block
 */
export function toFloat32(type: TensorType, bytes: Uint8Array, out?: Float32Array): Float32Array {
  const block = tensorTypes[type];
  const count = bytes.length / block.bytes;
  if (!Number.isInteger(count))
    throw new KvError(
      'toFloat32',
      `expected whole blocks of ${block.bytes} bytes of ${type}, got ${bytes.length} bytes`,
    );
  if (out !== undefined && out.length !== count * block.numbers)
    throw new KvError('toFloat32', `expected room for ${count * block.numbers} numbers, got ${out.length}`);
  if (type === 'F32' && out === undefined && bytes.byteOffset % 4 === 0)
    return new Float32Array(bytes.buffer, bytes.byteOffset, count);
  const to = out ?? new Float32Array(count * block.numbers);
  decoders[type](bytes, to, count);
  return to;
}

/**
 * Returns rows `from` to `from + count` of a matrix `[rows, inputs]` as f32, `[count, inputs]`.
 * @throws KvError for rows that the bytes do not hold, or that are not whole blocks
 */
export function floatRows(
  type: TensorType,
  bytes: Uint8Array,
  inputs: number,
  from: number,
  count: number,
): Float32Array {
  const { numbers, bytes: size } = tensorTypes[type];
  const row = (inputs / numbers) * size;
  if (inputs % numbers !== 0)
    throw new KvError(
      'floatRows',
      `expected rows of whole blocks of ${numbers} numbers of ${type}, got rows of ${inputs}`,
    );
  if (!(from >= 0 && count >= 0 && (from + count) * row <= bytes.length))
    throw new KvError('floatRows', `expected rows below ${Math.floor(bytes.length / row)}, got ${count} from ${from}`);
  return toFloat32(type, bytes.subarray(from * row, (from + count) * row));
}

/**
 * Returns the index of the first number that is not finite, or -1, without dequantising: a block's numbers are all
 * finite exactly if its scales are. For a block with a scale that is not, the index of its first number is returned.
 */
export function notFinite(type: TensorType, bytes: Uint8Array): number {
  const { numbers, bytes: size } = tensorTypes[type];
  if (type === 'MXFP4') return notFiniteMx(bytes, numbers, size);
  // The sign and exponent of F32 and BF16 are the last two bytes of a number; 0x7f80 is an exponent of ones.
  const [places, ones] = type === 'F32' || type === 'BF16' ? [[size - 2], 0x7f80] : [scalesAt[type], 0x7c00],
    own = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice(),
    halves = new Uint16Array(own.buffer, own.byteOffset, own.length >> 1),
    first = (place: number): number => {
      for (let at = place / 2; at < halves.length; at += size / 2) if ((halves[at] & ones) === ones) return at;
      return Infinity;
    },
    bad = Math.min(...places.map(first));
  return bad === Infinity ? -1 : Math.floor((2 * bad) / size) * numbers;
}

/** The largest exponents push some numbers of their block past the range of f32. */
function notFiniteMx(bytes: Uint8Array, numbers: number, size: number): number {
  for (let at = 0, index = 0; at < bytes.length; at += size, index += numbers)
    if (bytes[at] > 252 && !toFloat32('MXFP4', bytes.subarray(at, at + size)).every(Number.isFinite)) return index;
  return -1;
}
