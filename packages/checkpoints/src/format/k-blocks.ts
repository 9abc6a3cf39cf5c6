import type { BlockDecoder } from './blocks.ts';
import { halves } from './halves.ts';

/**
 * Q4_K, super-blocks of 256: half d and dmin, eight 6-bit scales and minima in 12 bytes, 128 bytes of nibbles; the
 * value is d s q - dmin m.
 */
export const q4_k: BlockDecoder = (bytes, out, count) => nibbles(bytes, out, count, 0);

/** As `q4_k`, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to number i of the j-th 32. */
export const q5_k: BlockDecoder = (bytes, out, count) => nibbles(bytes, out, count, 32);

function nibbles(bytes: Uint8Array, out: Float32Array, count: number, highBytes: 0 | 32): void {
  const half = halves();
  const size = 144 + highBytes;
  for (let block = 0, at = 0, to = 0; block < count; block++, at += size) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    const dmin = half[bytes[at + 2] | (bytes[at + 3] << 8)];
    for (let j = 0; j < 8; j++, to += 32) {
      const scale = d * sixBits(bytes, at + 4, j, 0);
      const min = dmin * sixBits(bytes, at + 4, j, 4);
      const low = at + 16 + highBytes + 32 * (j >> 1);
      const shift = 4 * (j & 1);
      for (let i = 0; i < 32; i++) {
        const high = highBytes === 0 ? 0 : ((bytes[at + 16 + i] >> j) & 1) << 4;
        out[to + i] = scale * (((bytes[low + i] >> shift) & 15) | high) - min;
      }
    }
  }
}

/**
 * Returns the j-th of eight scales (`part` 0) or minima (`part` 4). The first four have 6 bits of a byte each; the low
 * bits of the others are in bytes 8 to 11, their high bits above the first four.
 */
export function sixBits(bytes: Uint8Array, at: number, j: number, part: 0 | 4): number {
  if (j < 4) return bytes[at + part + j] & 63;
  return ((bytes[at + 4 + j] >> part) & 15) | ((bytes[at + part + j - 4] >> 6) << 4);
}

/** Super-blocks of 256: 128 bytes of low nibbles, 64 bytes of high pairs, 16 signed scales, half d; d s (q - 32). */
export const q6_k: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 210) {
    const d = half[bytes[at + 208] | (bytes[at + 209] << 8)];
    for (let j = 0; j < 8; j++) {
      const low = at + 64 * (j >> 2) + 32 * (j & 1);
      const high = at + 128 + 32 * (j >> 2);
      const lowShift = 4 * ((j >> 1) & 1);
      const highShift = 2 * (j & 3);
      for (let i = 0; i < 32; i += 16) {
        const scale = d * ((bytes[at + 192 + 2 * j + (i >> 4)] << 24) >> 24);
        for (let k = i; k < i + 16; k++, to++)
          out[to] = scale * ((((bytes[low + k] >> lowShift) & 15) | (((bytes[high + k] >> highShift) & 3) << 4)) - 32);
      }
    }
  }
};
