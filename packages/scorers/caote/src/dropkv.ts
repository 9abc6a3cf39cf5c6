import { biases, count, keys, positions, queries, values, weightScorer } from '@kv/core';
import { blockAttention, overWindow } from '@kv/core/shared';
import { squaredErrors } from './squared-errors.ts';

/**
 * DropKV: how far the outputs of the last w queries move when token j alone is evicted, s_j = Σ_i (p_ij / (1 - p_ij))²
 * |v_j - o_i|². This is CAOTE's exact error of every query, squared and summed.
 *
 * @remarks openreview MqfNzH3TVH, with the formula of kvpress' issue 284. Weights on query rows `[H, n]`; the window is
 * forced. A squared distance in the space of values, so heads may be compared. O(w H n d).
 */
export const dropkv = weightScorer(
  'dropkv',
  {
    source: 'DropKV, openreview MqfNzH3TVH',
    says: 'Exact eviction errors of the last queries, squared and summed.',
    options: { window: count(32, 'queries', 'Last queries that are looked at, whose own slots stay.') },
    needs: ({ window }) => [queries(window), keys, values, positions, biases],
    ends: ({ window: last }) => ({ last }),
  },
  (ctx, { window }) => {
    const { ops, at, values: v } = ctx;
    const last = ops.lastSlots(ctx.keys, window);
    const squares = overWindow(ctx, 'sum', at.queryHeads, (block) => {
      const p = blockAttention(ctx, block);
      return ops.kernel(squaredErrors, { p, o: ops.matmul(p, v), v }, { heads: at.queryHeads });
    });
    // forced slots need no score, and that of the newest query's own slot may overflow f32
    return { scores: ops.where(last, 0, squares), forced: last };
  },
);
