/** Types of stored weights, which the device reads as they are. */
export type Stored =
  | ('F32' | 'F16' | 'BF16' | 'Q8_0' | 'Q4_0' | 'Q4_1' | 'Q5_0' | 'Q5_1')
  | ('Q4_K' | 'Q5_K' | 'Q6_K' | 'IQ4_NL' | 'MXFP4');

const half = (bits: number): number => {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
};
const blocks: Readonly<Record<Stored, number>> = {
  F32: 4,
  F16: 2,
  BF16: 2,
  Q8_0: 34,
  Q4_0: 18,
  Q4_1: 20,
  Q5_0: 22,
  Q5_1: 24,
  Q4_K: 144,
  Q5_K: 176,
  Q6_K: 210,
  IQ4_NL: 18,
  MXFP4: 17,
};
const numbersOf = (type: Stored): number => (type.endsWith('_K') ? 256 : /^(?:Q|IQ|MX)/.test(type) ? 32 : 1);
/** How large the two terms of a number can be, whose difference it is. */
export const CANCELS: Readonly<Partial<Record<Stored, number>>> = { Q4_1: 16, Q5_1: 32, Q4_K: 63 * 16, Q5_K: 63 * 32 };

/**
 * Bytes of `rows` rows of `inputs` numbers: quants of all values; scales and halves of either sign, subnormal ones
 * among them.
 */
export function storedBytes(type: Stored, rows: number, inputs: number, next: () => number): Uint8Array {
  const bytes = new Uint8Array((rows * inputs * blocks[type]) / numbersOf(type)).map(() => Math.floor(next() * 256)),
    view = new DataView(bytes.buffer);
  for (let at = 0; at < bytes.length; at += blocks[type]) {
    const scale = (to: number): void =>
      view.setUint16(
        to,
        (next() < 0.5 ? 0x8000 : 0) |
          (next() < 0.2 ? Math.floor(next() * 1024) : ((9 + Math.floor(next() * 6)) << 10) | Math.floor(next() * 1024)),
        true,
      );
    if (type === 'F32') view.setFloat32(at, next() * 2 - 1, true);
    else if (type === 'BF16')
      view.setUint16(
        at,
        (next() < 0.5 ? 0x8000 : 0) | ((120 + Math.floor(next() * 8)) << 7) | Math.floor(next() * 128),
        true,
      );
    else if (type === 'MXFP4') view.setUint8(at, 115 + Math.floor(next() * 10));
    else scale(type === 'Q6_K' ? at + 208 : at);
    if (CANCELS[type] !== undefined) scale(at + 2);
  }
  return bytes;
}

/** ggml-common.h, kvalues_iq4nl. */
const UNEVEN = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/** The numbers of stored bytes in float64, by the definition of ggml's blocks. */
export function storedNumbers(type: Stored, bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length),
    out: number[] = [];
  for (let at = 0; at < bytes.length; at += blocks[type]) {
    const d = (): number => half(view.getUint16(at, true));
    if (type === 'F32') out.push(view.getFloat32(at, true));
    else if (type === 'F16') out.push(d());
    else if (type === 'BF16') {
      const b = view.getUint16(at, true);
      out.push((b >> 15 ? -1 : 1) * (1 + (b & 127) / 128) * 2 ** (((b >> 7) & 255) - 127));
    } else if (numbersOf(type) === 256) for (let i = 0; i < 256; i++) out.push(superNumber(type, view, at, i));
    else
      for (let i = 0; i < 32; i++) {
        const nibble = (from: number): number => (view.getUint8(from + (i % 16)) >> (i < 16 ? 0 : 4)) & 15;
        if (type === 'MXFP4') {
          const [exponent, fraction] = [(nibble(at + 1) >> 1) & 3, nibble(at + 1) & 1],
            size = exponent === 0 ? fraction / 2 : (1 + fraction / 2) * 2 ** (exponent - 1);
          out.push((nibble(at + 1) & 8 ? -size : size) * 2 ** (view.getUint8(at) - 127));
        } else if (type === 'IQ4_NL') out.push(d() * UNEVEN[nibble(at + 2)]);
        else if (type === 'Q8_0') out.push(d() * view.getInt8(at + 2 + i));
        else if (type === 'Q4_0') out.push(d() * (nibble(at + 2) - 8));
        else if (type === 'Q4_1') out.push(d() * nibble(at + 4) + half(view.getUint16(at + 2, true)));
        else if (type === 'Q5_1')
          out.push(
            d() * (nibble(at + 8) + 16 * ((view.getUint32(at + 4, true) >>> i) & 1)) +
              half(view.getUint16(at + 2, true)),
          );
        else out.push(d() * (nibble(at + 6) + 16 * ((view.getUint32(at + 2, true) >>> i) & 1) - 16));
      }
  }
  return out;
}

/** Number i of a block of 256, as gguf-py's quants.py reads it. */
function superNumber(type: Stored, view: DataView, at: number, i: number): number {
  const byte = (from: number): number => view.getUint8(at + from),
    j = i >> 5,
    l = i % 32;
  if (type === 'Q6_K') {
    const n = i >> 7,
      q = j % 4,
      low = (byte(64 * n + (q % 2) * 32 + l) >> (q < 2 ? 0 : 4)) & 15,
      high = (byte(128 + 32 * n + l) >> (2 * q)) & 3;
    return half(view.getUint16(at + 208, true)) * view.getInt8(at + 192 + (i >> 4)) * (low + 16 * high - 32);
  }
  const scale = j < 4 ? byte(4 + j) & 63 : (byte(8 + j) & 15) | ((byte(j) >> 6) << 4),
    least = j < 4 ? byte(8 + j) & 63 : (byte(8 + j) >> 4) | ((byte(4 + j) >> 6) << 4);
  const low = (byte((type === 'Q4_K' ? 16 : 48) + 32 * (j >> 1) + l) >> (4 * (j % 2))) & 15,
    high = type === 'Q5_K' ? (byte(16 + l) >> j) & 1 : 0;
  return half(view.getUint16(at, true)) * scale * (low + 16 * high) - half(view.getUint16(at + 2, true)) * least;
}
