import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import type { CheckpointTensors, TensorEntry } from './tensor-file.ts';
import { weightType } from './tensor-types.ts';

/** The two tensors in which safetensors files hold one of MXFP4. */
interface MxPair extends TensorEntry {
  readonly type: 'MXFP4';
  /** Name of U8 `[..., n / 32, 16]`: numbers 2 i and 2 i + 1 of a block in the low and high nibble of byte i. */
  readonly blocks: string;
  /** Name of U8 `[..., n / 32]`: exponents. */
  readonly scales: string;
}

const BLOCKS = '_blocks',
  SCALES = '_scales';

/**
 * Returns a checkpoint with each pair `NAME_blocks`, `NAME_scales` of bytes, which may be in two of its files, as one tensor
 * NAME of MXFP4, `[..., n]`, as gpt-oss is published.
 * @throws KvError for scales that do not fit their blocks
 */
export function withMxPairs(file: CheckpointTensors): CheckpointTensors {
  const { name: where, tensors: stored } = file,
    pairs = new Map<string, MxPair>(),
    tensors = new Map(stored);
  for (const [blocks, { type, shape }] of stored) {
    const base = blocks.slice(0, -BLOCKS.length),
      scales = base + SCALES,
      of = stored.get(scales);
    if (!blocks.endsWith(BLOCKS) || base === '' || stored.has(base) || of?.type !== 'U8' || type !== 'U8') continue;
    const rows = shape.slice(0, -1);
    if (shape.at(-1) !== 16 || rows.length === 0)
      throw new KvError(where, `${blocks} must have shape [..., 16], got ${show(shape)}`);
    if (JSON.stringify(of.shape) !== JSON.stringify(rows))
      throw new KvError(where, `${scales} must have shape ${show(rows)}, got ${show(of.shape)}`);
    const pair: MxPair = {
      type: 'MXFP4',
      shape: [...rows.slice(0, -1), 32 * rows[rows.length - 1]],
      blocks,
      scales,
    };
    tensors.delete(blocks);
    tensors.delete(scales);
    tensors.set(base, pair);
    pairs.set(base, pair);
  }
  return {
    ...file,
    tensors,
    async bytes(tensor, part) {
      const pair = pairs.get(tensor),
        found = tensors.get(tensor);
      if (pair) return joinMx(await file.bytes(pair.blocks), await file.bytes(pair.scales));
      if (found) weightType(found.type, `${where} ${show(tensor)}`);
      return file.bytes(tensor, part);
    },
  };
}

/** Returns ggml's blocks of MXFP4: an exponent, then 16 bytes whose low nibbles are the first 16 numbers. */
function joinMx(blocks: Uint8Array, scales: Uint8Array): Uint8Array {
  const out = new Uint8Array(17 * scales.length);
  scales.forEach((scale, block) => {
    const from = 16 * block,
      to = 17 * block;
    out[to] = scale;
    for (let i = 0; i < 16; i++) {
      const shift = 4 * (i & 1),
        [low, high] = [blocks[from + (i >> 1)], blocks[from + 8 + (i >> 1)]];
      out[to + 1 + i] = ((low >> shift) & 15) | (((high >> shift) & 15) << 4);
    }
  });
  return out;
}
