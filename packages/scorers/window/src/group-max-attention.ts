import { count, LOWEST, odd, weightScorer } from '@kv/core';
import { blockLogits, overWindow } from '@kv/core/shared';
import { lastQueries } from './last-queries.ts';

/**
 * R-KV's importance: for each of the last w queries the softmax, over the slots before the window, of the largest logit
 * of the head group; mean over the queries, maximum over neighbours.
 *
 * @remarks Cai et al. 2025, arXiv:2505.24133. Weights on KV rows `[G, n]`, 0 in the window, which is forced.
 * O(w H n d).
 */
export const groupMaxAttention = weightScorer(
  'groupMaxAttention',
  {
    source: 'Cai et al. 2025, arXiv:2505.24133',
    says: 'Attention of the last queries by the largest logit of the head group.',
    options: {
      window: count(8, 'queries', 'Last queries that are looked at, whose own slots stay.'),
      kernel: odd(7, 'Width of the maximum over neighbouring slots.'),
    },
    ...lastQueries,
  },
  (ctx, { window, kernel }) => {
    const { ops, at, keys: k } = ctx;
    const [G = 1, n = 1] = k.shape;
    const last = ops.lastSlots(k, window);
    const sums = overWindow(ctx, 'sum', G, (block) => {
      const { count: c } = block,
        logits = blockLogits(ctx, block);
      // over the group's heads, for each query
      const largest = ops.groupRows('max', ops.reshape(logits, [at.queryHeads, c * n]), G);
      return ops.softmax(ops.where(last, LOWEST, ops.reshape(largest, [G * c, n])));
    });
    const mean = ops.where(last, 0, ops.div(sums, ctx.queries.shape[1]));
    return { scores: ops.pool(mean, { kernel, kind: 'max', except: window }), forced: last };
  },
);
