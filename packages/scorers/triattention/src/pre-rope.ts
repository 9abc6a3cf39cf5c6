import { KvError, readTensorFile, sidecar, tensorFile } from '@kv/core';
import type { Signal } from '@kv/core';

/** Statistics of one layer's queries before rotation, over a calibration text. */
export interface PreRope {
  /** E[q] of every channel, `[H, d]`; the pair (i, i + half) is one complex number. */
  readonly mean: Float32Array;
  /** E[|q_f|] of every pair, `[H, half]`. */
  readonly size: Float32Array;
  /** Number of pairs that rotate. */
  readonly half: number;
}
/** Statistics of all layers of a model. */
export interface Statistics {
  /** Number of tokens in the calibration text. */
  readonly tokens: number;
  readonly rows: readonly PreRope[];
}
interface Heads {
  readonly queryHeads: number;
  readonly headDim: number;
}

/** Name of the file next to the model. */
export const PRE_ROPE_FILE = 'pre-rope.safetensors';

/** Returns the statistics as a safetensors file: `mean` f32 `[L, H, d]` and `size` f32 `[L, H, half]`. */
export function preRopeFile(
  { tokens, rows }: Statistics,
  { queryHeads: H, headDim: d }: Heads,
  metadata: Readonly<Record<string, string>> = {},
): Uint8Array {
  const put = (width: number, of: (row: PreRope) => Float32Array) => ({
    shape: [rows.length, H, width],
    data: Float32Array.from(rows.flatMap((row) => Array.from(of(row)))),
  });
  return tensorFile({
    metadata: { ...metadata, tokens: String(tokens) },
    tensors: { mean: put(d, (row) => row.mean), size: put(rows[0]?.half ?? 0, (row) => row.size) },
  });
}

/**
 * Reads a file that `preRopeFile` writes.
 *
 * @throws KvError for any other bytes.
 */
export function readPreRope(file: Uint8Array): Statistics & Heads {
  const {
      tensors: { mean, size },
      metadata,
    } = readTensorFile(PRE_ROPE_FILE, file, ['mean', 'size']),
    [L = 0, H = 0, d = 0] = mean.shape,
    half = size.shape[2] ?? 0;
  if (mean.shape.length !== 3 || size.shape.length !== 3 || size.shape[0] !== L || size.shape[1] !== H || 2 * half > d)
    throw new KvError(
      PRE_ROPE_FILE,
      `expected sizes of ${L} layers, ${H} heads and at most ${Math.floor(d / 2)} pairs, got [${size.shape.join(', ')}]`,
    );
  const rows = Array.from(
    { length: L },
    (_, l): PreRope => ({
      mean: mean.data.slice(l * H * d, (l + 1) * H * d),
      size: size.data.slice(l * H * half, (l + 1) * H * half),
      half,
    }),
  );
  return { tokens: Number(metadata['tokens']) || 0, rows, queryHeads: H, headDim: d };
}

/**
 * Signal: statistics of a layer's queries before rotation, from `pre-rope.safetensors` next to the model.
 *
 * @throws KvError where the file is missing or belongs to another model.
 */
export const preRope: Signal<'preRope', PreRope & Heads> = sidecar({
  as: 'preRope',
  piece: 'futureQueryScores',
  file: PRE_ROPE_FILE,
  of: 'statistics',
  make: 'node tools/calibrate.mjs MODEL',
  read: (file) => {
    const { rows, queryHeads, headDim } = readPreRope(file);
    return rows.map((row) => ({ ...row, queryHeads, headDim }));
  },
});
