import { positions, values, weightTransform } from '@kv/core';
import { shares } from '@kv/core/shared';

/**
 * FastCAOTE: CAOTE with the mean value vector instead of the attention output, c_j = h_j / (1 - h_j) * |mean v - v_j|.
 *
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 8. Weights `[rows, n]` to weights. Distances are those of the KV
 * heads, O(G n d), where `caote` has them for every query head.
 */
export const fastCaote = weightTransform(
  'fastCaote',
  {
    source: 'Goel et al. 2025, arXiv:2504.14051, eq. 8',
    says: 'CAOTE with the mean value for the attention output.',
    needs: [values, positions],
  },
  (ctx) => {
    const { ops, values: v, positions: p } = ctx,
      h = shares(ctx, ctx.scores); // [rows, n]
    const mean = ops.matmul(ops.simplex(ops.fill(p, 1)), v); // [G, d]
    return ops.mul(ops.odds(h), ops.distance(mean, v));
  },
);
