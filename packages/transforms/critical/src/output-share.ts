import { layerMean, outputNorms, positions, scoreTransform } from '@kv/core';

/**
 * Multiplies scores by how much more a slot's value weighs in the layer's output through this KV head than through the
 * others: |v W_O|_1, mean over the head group, divided by the mean of all heads that hold the position.
 *
 * @remarks Feng et al. 2025, arXiv:2510.13334 (DefensiveKV), as its code has it, up to a factor of the number of heads.
 * Scores on KV rows `[G, n]`; weights stay weights.
 */
export const outputShare = scoreTransform(
  'outputShare',
  {
    source: 'Feng et al. 2025, arXiv:2510.13334',
    says: "Scores times a value's share in the layer's output.",
    needs: [outputNorms, positions],
  },
  (ctx) => {
    const { ops, at, outputNorms: size } = ctx;
    const norm = ops.groupRows('mean', size, at.kvHeads);
    const mean = layerMean(ctx, norm);
    return ops.mul(ops.reduceRows('mean', ctx.scores, at.kvHeads), ops.div(norm, ops.max(mean, 1e-30)));
  },
);
