import { KvError } from '@kv/core';
import { show } from '../read/fields.ts';
import type { TensorEntry } from './tensor-file.ts';

/** The two tensors in which safetensors files hold one of MXFP4. */
export interface MxPair<E extends TensorEntry> extends TensorEntry {
  readonly type: 'MXFP4';
  /** U8 `[..., n / 32, 16]`: numbers 2 i and 2 i + 1 of a block in the low and high nibble of byte i. */
  readonly blocks: E;
  /** U8 `[..., n / 32]`: exponents. */
  readonly scales: E;
}

const BLOCKS = '_blocks',
  SCALES = '_scales';

/**
 * Returns a file's tensors with each pair `NAME_blocks`, `NAME_scales` of bytes as one tensor NAME of MXFP4, `[..., n]`, as
 * gpt-oss is published.
 * @throws KvError for scales that do not fit their blocks
 */
export function withMxPairs<E extends TensorEntry>(
  tensors: ReadonlyMap<string, E>,
  where: string,
): ReadonlyMap<string, E | MxPair<E>> {
  const all = new Map<string, E | MxPair<E>>(tensors);
  for (const [name, blocks] of tensors) {
    const base = name.slice(0, -BLOCKS.length),
      scales = tensors.get(base + SCALES);
    if (!name.endsWith(BLOCKS) || base === '' || tensors.has(base) || scales?.type !== 'U8' || blocks.type !== 'U8')
      continue;
    const rows = blocks.shape.slice(0, -1);
    if (blocks.shape.at(-1) !== 16 || rows.length === 0)
      throw new KvError(where, `${name} must have shape [..., 16], got ${show(blocks.shape)}`);
    if (JSON.stringify(scales.shape) !== JSON.stringify(rows))
      throw new KvError(where, `${base + SCALES} must have shape ${show(rows)}, got ${show(scales.shape)}`);
    all.delete(name);
    all.delete(base + SCALES);
    all.set(base, { type: 'MXFP4', shape: [...rows.slice(0, -1), 32 * rows[rows.length - 1]], blocks, scales });
  }
  return all;
}

/** Returns ggml's blocks of MXFP4: an exponent, then 16 bytes whose low nibbles are the first 16 numbers. */
export function joinMx(blocks: Uint8Array, scales: Uint8Array): Uint8Array {
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
