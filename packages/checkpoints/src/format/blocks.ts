import { halves } from './halves.ts';

/**
 * Decodes the `count` blocks of `bytes` into `out`, in the layouts of ggml-quants.c; the f32 results equal those of
 * gguf-py's `dequantize` bit for bit.
 */
export type BlockDecoder = (bytes: Uint8Array, out: Float32Array, count: number) => void;

/** 8 bits: a half scale d, 32 signed bytes q; d q. */
export const q8_0: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 34, to += 32) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    for (let i = 0; i < 32; i++) out[to + i] = d * ((bytes[at + 2 + i] << 24) >> 24);
  }
};

/** 4 bits around 8: a half scale d, 16 bytes whose low nibbles are the first 16 numbers; d (q - 8). */
export const q4_0: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 18, to += 32) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    for (let i = 0; i < 16; i++) {
      const q = bytes[at + 2 + i];
      out[to + i] = d * ((q & 15) - 8);
      out[to + 16 + i] = d * ((q >> 4) - 8);
    }
  }
};

/** 4 bits above a minimum: half d and m; d q + m. */
export const q4_1: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 20, to += 32) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    const m = half[bytes[at + 2] | (bytes[at + 3] << 8)];
    for (let i = 0; i < 16; i++) {
      const q = bytes[at + 4 + i];
      out[to + i] = d * (q & 15) + m;
      out[to + 16 + i] = d * (q >> 4) + m;
    }
  }
};

/** 5 bits around 16: as `q4_0`, with the fifth bits in 4 bytes before the nibbles; d (q - 16). */
export const q5_0: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 22, to += 32) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    const high = word(bytes, at + 2);
    for (let i = 0; i < 16; i++) {
      const q = bytes[at + 6 + i];
      out[to + i] = d * (((q & 15) | (((high >>> i) & 1) << 4)) - 16);
      out[to + 16 + i] = d * (((q >> 4) | (((high >>> (16 + i)) & 1) << 4)) - 16);
    }
  }
};

/** 5 bits above a minimum: half d and m, the fifth bits, the nibbles; d q + m. */
export const q5_1: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  for (let block = 0, at = 0, to = 0; block < count; block++, at += 24, to += 32) {
    const d = half[bytes[at] | (bytes[at + 1] << 8)];
    const m = half[bytes[at + 2] | (bytes[at + 3] << 8)];
    const high = word(bytes, at + 4);
    for (let i = 0; i < 16; i++) {
      const q = bytes[at + 8 + i];
      out[to + i] = d * ((q & 15) | (((high >>> i) & 1) << 4)) + m;
      out[to + 16 + i] = d * ((q >> 4) | (((high >>> (16 + i)) & 1) << 4)) + m;
    }
  }
};

/** Values of the 16 codes of IQ4_NL, denser around 0. */
export const UNEVEN: Int8Array = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

/** IQ4_NL, 4 bits in uneven steps: a half scale d, 16 bytes as in `q4_0`; d times the code's value. */
export const iq4_nl: BlockDecoder = (bytes, out, count) => {
  const half = halves();
  looked(bytes, out, count, 18, UNEVEN, (at) => half[bytes[at] | (bytes[at + 1] << 8)]);
};

/** Twice the values of E2M1, as ggml stores them; the sign is the highest bit. */
export const TWICE_E2M1: Int8Array = Int8Array.of(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

/** Scale of an MXFP4 block: half of 2^(e - 127), since the table holds doubled values. */
export const mxfp4Scale = (e: number): number => 2 ** (e - 128);

/** OCP MX, FP4: an 8-bit exponent e, 16 bytes of E2M1 as in `q4_0`. */
export const mxfp4: BlockDecoder = (bytes, out, count) =>
  looked(bytes, out, count, 17, TWICE_E2M1, (at) => mxfp4Scale(bytes[at]));

/** Returns a decoder of blocks of `size` bytes that end in 16 bytes of nibbles, which index a table. */
function looked(
  bytes: Uint8Array,
  out: Float32Array,
  count: number,
  size: number,
  table: ArrayLike<number>,
  scale: (at: number) => number,
): void {
  for (let block = 0, at = 0, to = 0; block < count; block++, at += size, to += 32) {
    const d = scale(at);
    for (let i = 0, quants = at + size - 16; i < 16; i++) {
      out[to + i] = d * table[bytes[quants + i] & 15];
      out[to + 16 + i] = d * table[bytes[quants + i] >> 4];
    }
  }
}

function word(bytes: Uint8Array, at: number): number {
  return bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
}
