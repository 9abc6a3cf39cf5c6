import { flag, values, weightTransform } from '@kv/core';
import { shares } from '@kv/core/shared';

/**
 * CAOTE: the exact change of the attention output when token j alone is evicted, c_j = h_j / (1 - h_j) * |o - v_j|, also
 * where a learned sink, with value 0, has a part of the weights.
 *
 * @remarks Goel et al. 2025, arXiv:2504.14051, eq. 6 and Theorem A.2. Weights `[rows, n]` to weights of the same rows;
 * query rows read the values of their KV head. O(rows n d).
 */
export const caote = weightTransform(
  'caote',
  {
    source: 'Goel et al. 2025, arXiv:2504.14051, eq. 6',
    says: 'The exact error of evicting one token, over any weights.',
    options: { square: flag(false, 'The squared norm, as eq. 7 prints it.') },
    needs: [values],
  },
  (ctx, { square }) => {
    const { ops, values: v } = ctx,
      h = shares(ctx, ctx.scores); // [rows, n]
    const o = ops.matmul(h, v); // [rows, d]
    const error = ops.distance(o, v); // [rows, n]
    return ops.mul(ops.odds(h), square ? ops.mul(error, error) : error);
  },
);
