import { layerMean, outputNorms, positions } from '@kv/core';
import { shaper } from '@kv/core/old';
import type { Shaper } from '@kv/core';

/**
 * Scores times how much more a slot's value weighs in the layer's output through this KV head than through the others:
 * |v W_O|_1, mean over the head
 * group, over the mean of all heads that hold the position.
 *
 * @remarks Feng et al. 2025, arXiv:2510.13334 (DefensiveKV), as its code has it, up to the number of heads. Scores on
 * KV rows `[G, n]`; weights stay weights.
 */
export const outputShare = (): Shaper<'outputShare'> =>
  shaper('outputShare', [outputNorms, positions], ({ ops, at, scores, outputNorms: size, positions: p }) => {
    const norm = ops.groupRows('mean', size, at.kvHeads),
      mean = layerMean({ ops, at, positions: p }, norm);
    return ops.mul(
      scores.shape[0] > at.kvHeads ? ops.groupRows('mean', scores, at.kvHeads) : scores,
      ops.div(norm, ops.max(mean, 1e-30)),
    );
  });
