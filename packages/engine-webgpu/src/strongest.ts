import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { common, type AttentionResult, type DeviceAttention } from './attention.ts';
import { dispatch } from '@kv/gpu';
import { strongest, STRONGEST_QUERIES } from './kernels/strongest.wgsl.ts';
import { deviceForms } from './wgsl/stored-rows.ts';

export interface StrongestOptions {
  /** The first slot whose mean weights are kept; links go to slots before it. */
  readonly first: number;
  readonly most: number;
  readonly above: number;
  /**
   * Where the means are written, `[rows, width]`, and the row of the first query; without it links may go to any slot
   * before the query's own.
   */
  readonly mean?: { readonly to: Tensor; readonly row: number };
}

/**
 * Records each query's largest mean weights over heads, `[m, 2 most]`, slot and weight alternating. Every head holds
 * the same slots, nothing is masked, and the log-sum-exp of all queries is given.
 */
export function encodeStrongest(
  commands: Commands,
  a: DeviceAttention,
  { out: lse, lseAt: lse_at }: AttentionResult,
  { first, most, above, mean }: StrongestOptions,
): Tensor {
  const { m, headDim, slots, form = 'f32' } = a,
    best = commands.make([m, 2 * most]);
  dispatch(
    commands,
    strongest({ headDim, keys: deviceForms[form].keys, most, inside: !mean }),
    { ...a, lse, best, mean: mean?.to },
    { ...common(a), lse_at, slots, first, above, row: mean?.row ?? 0, width: mean?.to.shape[1] ?? 0 },
    Math.ceil(m / STRONGEST_QUERIES),
  );
  return best;
}
