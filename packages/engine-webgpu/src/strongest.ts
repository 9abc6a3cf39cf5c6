import type { Tensor } from '@kv/core';
import type { Commands } from '@kv/gpu';
import { common, type AttentionResult, type DeviceAttention } from './attention.ts';
import { dispatch } from '@kv/gpu';
import { strongest, STRONGEST_QUERIES } from './kernels/strongest.wgsl.ts';

export interface StrongestOptions {
  /** Means are kept of weights on slots from here on, links of those on slots before. */
  readonly first: number;
  readonly most: number;
  readonly above: number;
  /**
   * Where the means go, `[rows, width]`, and the row of the first query; without it links may be on any slot before the
   * query's own.
   */
  readonly mean?: { readonly to: Tensor; readonly row: number };
}

/**
 * Records each query's largest mean weights over heads, `[m, 2 most]`: slot and weight by turns. Every head holds the
 * same slots, nothing is masked, and log-sum-exp of all queries is there.
 */
export function encodeStrongest(
  commands: Commands,
  a: DeviceAttention,
  { out: lse, lseAt: lse_at }: AttentionResult,
  { first, most, above, mean }: StrongestOptions,
): Tensor {
  const { m, headDim, slots } = a,
    best = commands.make([m, 2 * most]);
  dispatch(
    commands,
    strongest({ headDim, most, inside: !mean }),
    { ...a, lse, best, mean: mean?.to },
    { ...common(a), lse_at, slots, first, above, row: mean?.row ?? 0, width: mean?.to.shape[1] ?? 0 },
    Math.ceil(m / STRONGEST_QUERIES),
  );
  return best;
}
