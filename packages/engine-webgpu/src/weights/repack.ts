import { tensorTypes, toFloat32 } from '@kv/checkpoints';
import type { MatrixPart, TensorType } from '@kv/checkpoints';
import type { WeightFormat } from '../wgsl/weights.ts';
import { blocks, unevenBlocks } from './blocks.ts';

/** Returns the device's form of a stored type: unchanged where a kernel reads it, else one that holds its numbers. */
export const formatOf = (type: TensorType): WeightFormat => forms[type] ?? 'f32';
const forms: Readonly<Partial<Record<TensorType, WeightFormat>>> = {
  F16: 'f16',
  BF16: 'bf16',
  Q8_0: 'q8_0',
  Q4_0: 'q4_0',
  Q4_1: 'q4_1',
  Q5_0: 'q5_0',
  Q5_1: 'q5_1',
  Q4_K: 'q4_k',
  Q5_K: 'q5_k',
  Q6_K: 'q6_k',
  IQ4_NL: 'q8_0',
  MXFP4: 'mxfp4',
};

/** 32-bit words of eight numbers, without scales. */
export const OCTET_WORDS: Readonly<Record<WeightFormat, number>> = {
  f32: 8,
  f16: 4,
  bf16: 4,
  q8_0: 2,
  q4_0: 1,
  q4_1: 1,
  q5_0: 1.25,
  q5_1: 1.25,
  q4_k: 1,
  q5_k: 1.25,
  q6_k: 1.5,
  mxfp4: 1,
};
/** Number of scales, of 16 bits each, for a block of 32 numbers. */
export const BLOCK_HALVES: Readonly<Record<WeightFormat, number>> = {
  f32: 0,
  f16: 0,
  bf16: 0,
  q8_0: 1,
  q4_0: 1,
  q4_1: 2,
  q5_0: 1,
  q5_1: 2,
  q4_k: 1,
  q5_k: 1,
  q6_k: 9 / 8,
  mxfp4: 1,
};

/** Returns the octets of a row, which is padded with zeros. */
export const octetsOf = (inputs: number): number => Math.ceil(inputs / 8);

/**
 * Rows of a part: the numbers or quants, and the scales of their blocks by halves (of Q4_1 and Q5_1 the scale and the
 * minimum; of K-quants all that the block has; of MXFP4 its exponent, in the low byte).
 */
export interface PackedRows {
  readonly weights: Uint32Array;
  readonly scales: Uint16Array;
}

/**
 * Converts rows `[from, from + count)` of a stored part to the device's form: quants in order, separate from scales, so
 * that each is read by whole words.
 */
export function repack({ type, rows, bytes }: MatrixPart, inputs: number, from: number, count: number): PackedRows {
  const size = bytes.length / rows,
    part = bytes.subarray(from * size, (from + count) * size),
    form = formatOf(type),
    octets = octetsOf(inputs);
  const weights = new Uint32Array(count * octets * OCTET_WORDS[form]),
    scales = new Uint16Array((count * inputs * BLOCK_HALVES[form]) / 32);
  const to = new Uint8Array(weights.buffer);
  if (form === 'f32' || form === 'f16' || form === 'bf16') {
    const plain = form === 'f32' ? bytesOf(toFloat32(type, part)) : part,
      row = plain.length / count,
      step = to.length / count;
    for (let r = 0; r < count; r++) to.set(plain.subarray(r * row, (r + 1) * row), r * step);
    return { weights, scales };
  }
  const { bytes: block, numbers } = tensorTypes[type],
    { scaleBytes, pack } = type === 'IQ4_NL' ? unevenBlocks : blocks[form],
    step = 16 * OCTET_WORDS[form];
  for (let at = 0, out = 0, s = 0; at < part.length; at += block) {
    for (const i of scaleBytes) scales[s++] = part[at + i] | (part[at + i + 1] << 8);
    for (let j = 0; j < numbers / 32; j++, out += step) pack(part, at, j, to, out);
  }
  return { weights, scales };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
