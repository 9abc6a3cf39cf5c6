import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { sample } from './kernels/sample.wgsl.ts';
import type { LogitEdits } from '@kv/engine';
import { allowLogits, editLogits } from './kernels/edit-logits.wgsl.ts';
import { encodeSlots } from './operations.ts';
import { rowsOf, type DeviceRowView } from './rows.ts';

export interface SampleOptions {
  /** Divides the logits; above 0 (use `encodeArgmax` for the likeliest id). @defaultValue 1 */
  readonly temperature?: number;
  /** Draws among this many of the largest; 0 for all. @defaultValue 0 */
  readonly topK?: number;
  /** Draws among the fewest ids with at least this share of what remains after `topK`, in (0, 1]. @defaultValue 1 */
  readonly topP?: number;
  /** Of these draws among ids with at least this share of the likeliest's probability, in [0, 1]. @defaultValue 0 */
  readonly minP?: number;
  /**
   * Whole numbers below 2^32: the same seed and step give the same draws, independent of earlier ones. @defaultValue 0
   */
  readonly seed?: number;
  readonly step?: number;
}

/** Records a draw from the logits of each of m rows, u32 `[m]`. @throws KvError for options out of range */
export function encodeSample(
  commands: Commands,
  x: DeviceRowView,
  m: number,
  { temperature = 1, topK = 0, topP = 1, minP = 0, seed = 0, step = 0 }: SampleOptions = {},
): Tensor {
  if (!(temperature > 0 && Number.isFinite(Math.fround(temperature)) && Math.fround(temperature) >= 2 ** -126))
    throw new KvError('sample', `temperature must be a number above 0, got ${temperature}`);
  if (!(topP > 0 && topP <= 1)) throw new KvError('sample', `topP must be above 0 and at most 1, got ${topP}`);
  if (!(minP >= 0 && minP <= 1)) throw new KvError('sample', `minP must be from 0 to 1, got ${minP}`);
  for (const [name, value] of Object.entries({ topK, seed, step }))
    if (!(Number.isInteger(value) && value >= 0 && value < 2 ** 32))
      throw new KvError('sample', `${name} must be a whole number from 0 to 4294967295, got ${value}`);
  const out = commands.make([m], 'u32');
  dispatch(
    commands,
    sample,
    { x: x.tensor, out },
    {
      x_at: x.at,
      x_stride: x.stride,
      width: x.width,
      top_k: Math.min(topK, x.width),
      seed,
      step,
      temperature,
      top_p: topP,
      min_p: minP,
    },
    m,
  );
  return out;
}

/**
 * Records a copy of one row of logits in which ids that are not `allowed` have -Infinity, and those of `edits` their
 * bias and penalties. @defaultValue all allowed, none edited: the row itself
 */
export function encodeEditedLogits(
  commands: Commands,
  x: DeviceRowView,
  { allowed, edits }: { readonly allowed?: Int32Array | undefined; readonly edits?: LogitEdits | undefined } = {},
): DeviceRowView {
  if (!allowed && !edits) return x;
  const out = commands.make([1, x.width]);
  if (allowed) {
    const words = new Uint32Array(allowed.buffer, allowed.byteOffset, allowed.length);
    dispatch(
      commands,
      allowLogits,
      { x: x.tensor, allowed: commands.upload(words, [words.length]), out },
      { x_at: x.at, words: words.length },
      x.width,
    );
  } else encodeSlots(commands, { ...x.tensor, shape: [1, x.width] }, out, x.width, 0, 0, x.at);
  if (edits)
    dispatch(
      commands,
      editLogits,
      {
        ids: commands.upload(edits.ids, [edits.ids.length]),
        changes: commands.upload(edits.changes, [edits.changes.length]),
        out,
      },
      {},
      edits.ids.length,
    );
  return rowsOf(out, x.width);
}
