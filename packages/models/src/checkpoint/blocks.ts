import { halves } from './halves.ts';

/**
 * Reads the `count` blocks of `bytes` into `out`: the layouts of ggml-quants.c, bit for bit what gguf-py's `dequantize`
 * gives in f32.
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

function word(bytes: Uint8Array, at: number): number {
  return bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
}
