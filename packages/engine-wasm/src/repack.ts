import { TWICE_E2M1, UNEVEN, tensorTypes, toFloat32 } from '@kv/checkpoints';
import type { MatrixPart, TensorType } from '@kv/checkpoints';

/** A stored type in a form that the module multiplies, with the same numbers to the bit. */
export interface RepackedRows {
  readonly type: TensorType;
  /** Converts whole stored blocks to that form; absent where they are in it. */
  pack?(blocks: Uint8Array): Uint8Array;
}

/**
 * Returns the form of a stored type: IQ4_NL as Q8_0, whose bytes are the numbers of its table; MXFP4 as Q8_0 if its
 * powers of two are f16 numbers, else as BF16; other types unchanged.
 */
export function repackRows({ type, bytes }: MatrixPart): RepackedRows {
  if (type === 'IQ4_NL')
    return { type: 'Q8_0', pack: (blocks) => asBytes(blocks, tensorTypes.IQ4_NL.bytes, UNEVEN, unevenScale) };
  if (type !== 'MXFP4') return { type };
  return everyHalf(bytes)
    ? { type: 'Q8_0', pack: (blocks) => asBytes(blocks, tensorTypes.MXFP4.bytes, TWICE_E2M1, powerScale) }
    : { type: 'BF16', pack: upperHalves };
}

/** Exponents of MXFP4 whose scale, 2^(e - 128), is an f16 number, subnormal ones included. */
const [LEAST, MOST] = [104, 143];

/** Returns whether all scales of blocks of MXFP4 are f16 numbers, ignoring blocks of zeros, which any scale gives. */
function everyHalf(bytes: Uint8Array): boolean {
  const { bytes: size } = tensorTypes.MXFP4;
  for (let at = 0; at < bytes.length; at += size)
    if ((bytes[at] < LEAST || bytes[at] > MOST) && bytes.subarray(at + 1, at + size).some((two) => (two & 0x77) !== 0))
      return false;
  return true;
}

/** Returns the 16 bits of the f16 number 2^(e - 128); for a block of zeros any finite one. */
function powerScale(blocks: Uint8Array, at: number): number {
  const power = Math.min(MOST, Math.max(LEAST, blocks[at])) - 128;
  return power < -14 ? 1 << (power + 24) : (power + 15) << 10;
}

const unevenScale = (blocks: Uint8Array, at: number): number => blocks[at] | (blocks[at + 1] << 8);

/**
 * Converts blocks of `size` bytes that end in 16 bytes of nibbles to Q8_0: the f16 scale that `scale` gives, the
 * table's numbers.
 */
function asBytes(
  blocks: Uint8Array,
  size: number,
  table: Int8Array,
  scale: (blocks: Uint8Array, at: number) => number,
): Uint8Array {
  const out = new Uint8Array((blocks.length / size) * tensorTypes.Q8_0.bytes);
  for (let at = 0, to = 0; at < blocks.length; at += size, to += tensorTypes.Q8_0.bytes) {
    const half = scale(blocks, at);
    out[to] = half & 255;
    out[to + 1] = half >> 8;
    for (let i = 0, nibbles = at + size - 16; i < 16; i++) {
      out[to + 2 + i] = table[blocks[nibbles + i] & 15];
      out[to + 18 + i] = table[blocks[nibbles + i] >> 4];
    }
  }
  return out;
}

/** Converts MXFP4 to BF16: a power of two and at most two more bits fit the upper halves of f32. */
function upperHalves(blocks: Uint8Array): Uint8Array {
  const words = new Uint16Array(toFloat32('MXFP4', blocks).buffer),
    out = new Uint8Array(words.length);
  for (let i = 1; i < words.length; i += 2) {
    out[i - 1] = words[i] & 255;
    out[i] = words[i] >> 8;
  }
  return out;
}
