import { KvError } from '@kv/core';

/** Little-endian bytes of F32, F16 or BF16 as f32; exact, a copy. @throws KvError for another type. */
export function toFloat32(bytes: Uint8Array, dtype: string, at: string): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (dtype === 'F32') {
    const out = new Float32Array(bytes.length / 4);
    for (let i = 0; i < out.length; i++) out[i] = view.getFloat32(4 * i, true);
    return out;
  }
  if (dtype !== 'F16' && dtype !== 'BF16') throw new KvError(at, `dtype must be F32, F16 or BF16, got ${dtype}`);
  const out = new Float32Array(bytes.length / 2);
  const bits = new Uint32Array(out.buffer);
  for (let i = 0; i < out.length; i++) {
    const half = view.getUint16(2 * i, true);
    bits[i] = dtype === 'BF16' ? half << 16 : widenHalf(half);
  }
  return out;
}

/** The bits of an IEEE half as the bits of the same number in single precision. */
function widenHalf(half: number): number {
  const sign = (half & 0x8000) << 16;
  const exponent = (half >> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 31) return sign | 0x7f800000 | (mantissa << 13);
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (mantissa << 13);
  if (mantissa === 0) return sign;
  const shift = Math.clz32(mantissa) - 21;
  return sign | ((113 - shift) << 23) | (((mantissa << shift) & 0x3ff) << 13);
}
