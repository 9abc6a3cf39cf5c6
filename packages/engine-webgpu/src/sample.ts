import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { sample } from './kernels/sample.wgsl.ts';
import type { DeviceRowView } from './rows.ts';

export interface SampleOptions {
  /** Divides the logits; above 0 (use `encodeArgmax` for the likeliest id). @defaultValue 1 */
  readonly temperature?: number;
  /** Draws among this many of the largest; 0 for all. @defaultValue 0 */
  readonly topK?: number;
  /** Draws among the fewest ids with at least this share of what remains after `topK`, in (0, 1]. @defaultValue 1 */
  readonly topP?: number;
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
  { temperature = 1, topK = 0, topP = 1, seed = 0, step = 0 }: SampleOptions = {},
): Tensor {
  if (!(temperature > 0 && Number.isFinite(Math.fround(temperature)) && Math.fround(temperature) >= 2 ** -126))
    throw new KvError('sample', `temperature must be a number above 0, got ${temperature}`);
  if (!(topP > 0 && topP <= 1)) throw new KvError('sample', `topP must be above 0 and at most 1, got ${topP}`);
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
    },
    m,
  );
  return out;
}
