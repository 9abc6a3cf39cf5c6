import type { WeightFormat } from '../wgsl/weights.ts';

/** How a stored block is packed for the device. */
interface BlockPacking {
  /** Byte offsets of its scales, of two bytes each: f16 numbers, but the exponent of MXFP4 is the first of its two. */
  readonly scaleBytes: readonly number[];
  /**
   * Writes its 32 numbers j in order: whole bytes, or four words of low bits, the first number of a byte in its low
   * nibble, and what is above them.
   */
  pack(from: Uint8Array, at: number, j: number, to: Uint8Array, out: number): void;
}

const evens = (from: number, to: number): number[] => Array.from({ length: (to - from) / 2 }, (_, i) => from + 2 * i);

/** Pairs of numbers, each in the nibble at `shift` of its byte. */
function nibbles(from: Uint8Array, at: number, shift: number, pairs: number, to: Uint8Array, out: number): void {
  for (let i = 0; i < pairs; i++)
    to[out + i] = ((from[at + 2 * i] >> shift) & 15) | (((from[at + 2 * i + 1] >> shift) & 15) << 4);
}

/** 32 numbers in 16 bytes, the first half in the low nibbles. */
function halved(from: Uint8Array, at: number, to: Uint8Array, out: number): void {
  nibbles(from, at, 0, 8, to, out);
  nibbles(from, at, 4, 8, to, out + 8);
}

/** `bits` bits at `shift` of each of 32 bytes, one after the other. */
function upper(from: Uint8Array, at: number, shift: number, bits: 1 | 2, to: Uint8Array, out: number): void {
  const each = 8 / bits,
    mask = 2 ** bits - 1;
  for (let i = 0; i < 32; i++)
    to[out + Math.floor(i / each)] |= ((from[at + i] >> shift) & mask) << (bits * (i % each));
}

/** Two times 32 numbers in 32 bytes, the second in the high nibbles. */
const ofPair = (from: Uint8Array, at: number, j: number, to: Uint8Array, out: number): void =>
  nibbles(from, at + 32 * (j >> 1), 4 * (j % 2), 16, to, out);
const withFifth =
  (fifth: number, quants: number): BlockPacking['pack'] =>
  (from, at, _, to, out) => {
    halved(from, at + quants, to, out);
    to.set(from.subarray(at + fifth, at + fifth + 4), out + 16);
  };

/** ggml's blocks (ggml-common.h): scales first, of Q6_K last. */
export const blocks: Readonly<Record<Exclude<WeightFormat, 'f32' | 'f16' | 'bf16'>, BlockPacking>> = {
  q8_0: { scaleBytes: [0], pack: (from, at, _, to, out) => to.set(from.subarray(at + 2, at + 34), out) },
  q4_0: { scaleBytes: [0], pack: (from, at, _, to, out) => halved(from, at + 2, to, out) },
  q4_1: { scaleBytes: [0, 2], pack: (from, at, _, to, out) => halved(from, at + 4, to, out) },
  q5_0: { scaleBytes: [0], pack: withFifth(2, 6) },
  q5_1: { scaleBytes: [0, 2], pack: withFifth(4, 8) },
  q4_k: { scaleBytes: evens(0, 16), pack: (from, at, j, to, out) => ofPair(from, at + 16, j, to, out) },
  q5_k: {
    scaleBytes: evens(0, 16),
    pack: (from, at, j, to, out) => {
      ofPair(from, at + 48, j, to, out);
      upper(from, at + 16, j, 1, to, out + 16);
    },
  },
  q6_k: {
    scaleBytes: [208, ...evens(192, 208)],
    pack: (from, at, j, to, out) => {
      nibbles(from, at + 64 * (j >> 2) + 32 * (j % 2), 2 * (j & 2), 16, to, out);
      upper(from, at + 128 + 32 * (j >> 2), 2 * (j % 4), 2, to, out + 16);
    },
  },
  mxfp4: { scaleBytes: [0], pack: (from, at, _, to, out) => halved(from, at + 1, to, out) },
};

/** Numbers that a nibble of IQ4_NL stands for (ggml-common.h). */
const UNEVEN = Int8Array.of(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);

/** IQ4_NL, of uneven steps: as whole bytes, in the layout of Q8_0. */
export const unevenBlocks: BlockPacking = {
  scaleBytes: [0],
  pack: (from, at, _, to, out) => {
    for (let i = 0; i < 16; i++) {
      to[out + i] = UNEVEN[from[at + 2 + i] & 15];
      to[out + 16 + i] = UNEVEN[from[at + 2 + i] >> 4];
    }
  },
};
