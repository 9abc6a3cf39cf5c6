import { tensorTypes, toFloat32 } from '@kv/models';
import type { MatrixPart, TensorType } from '@kv/models';
import type { Form } from '../wgsl/weights.ts';

/** The form in which a stored type goes to the device: as it is where a kernel reads it, else as f32. */
export const formOf = (type: TensorType): Form => forms[type] ?? 'f32';
const forms: Readonly<Partial<Record<TensorType, Form>>> = { F16: 'f16', BF16: 'bf16', Q8_0: 'q8_0', Q4_0: 'q4_0', Q4_1: 'q4_1' };

/** Words of 32 bits that eight numbers take, without scales. */
export const OCTET_WORDS: Readonly<Record<Form, number>> = { f32: 8, f16: 4, bf16: 4, q8_0: 2, q4_0: 1, q4_1: 1 };
/** Halves of scales for a block of 32 numbers. */
export const BLOCK_HALVES: Readonly<Record<Form, number>> = { f32: 0, f16: 0, bf16: 0, q8_0: 1, q4_0: 1, q4_1: 2 };

/** Eight numbers at a time; rows are filled up with zeros. */
export const octetsOf = (inputs: number): number => Math.ceil(inputs / 8);

/** Rows of a part: the numbers or quants, and the scales of their blocks (a half each; of Q4_1 two, the scale and the minimum). */
export interface Packed {
  readonly weights: Uint32Array;
  readonly scales: Uint16Array;
}

/** Puts rows `[from, from + count)` of a stored part into the device's form: quants in order, apart from scales, so that each is read by whole words. */
export function repack({ type, rows, bytes }: MatrixPart, inputs: number, from: number, count: number): Packed {
  const size = bytes.length / rows, part = bytes.subarray(from * size, (from + count) * size), form = formOf(type), octets = octetsOf(inputs);
  const weights = new Uint32Array(count * octets * OCTET_WORDS[form]), scales = new Uint16Array((count * inputs * BLOCK_HALVES[form]) / 32);
  const to = new Uint8Array(weights.buffer);
  if (form === 'f32' || form === 'f16' || form === 'bf16') {
    const plain = form === 'f32' ? bytesOf(toFloat32(type, part)) : part, row = plain.length / count, step = to.length / count;
    for (let r = 0; r < count; r++) to.set(plain.subarray(r * row, (r + 1) * row), r * step);
    return { weights, scales };
  }
  const { bytes: block } = tensorTypes[type], halves = BLOCK_HALVES[form];
  for (let at = 0, out = 0, s = 0; at < part.length; at += block) {
    for (let i = 0; i < halves; i++) scales[s++] = part[at + 2 * i]! | (part[at + 2 * i + 1]! << 8);
    const quants = at + 2 * halves;
    if (form === 'q8_0') to.set(part.subarray(quants, at + block), out);
    else inOrder(part, quants, to, out);
    out += form === 'q8_0' ? 32 : 16;
  }
  return { weights, scales };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array => new Uint8Array(buffer, byteOffset, byteLength);

/** 32 numbers of 4 bits: stored with the first half in the low nibbles, wanted in order, the first of a byte in its low nibble. */
function inOrder(from: Uint8Array, at: number, to: Uint8Array, out: number): void {
  for (let i = 0; i < 8; i++) {
    const a = from[at + 2 * i]!, b = from[at + 2 * i + 1]!;
    to[out + i] = (a & 15) | ((b & 15) << 4);
    to[out + 8 + i] = (a >> 4) | (b & 0xf0);
  }
}
