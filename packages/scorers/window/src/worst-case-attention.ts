import { count, odd, weightScorer } from '@kv/core';
import { blockAttention, overWindow } from '@kv/core/shared';
import { lastQueries } from './last-queries.ts';

/**
 * DefensiveKV's worst case: the largest attention that a slot received from any of the last w queries and heads of its
 * group, and at least the mean of these over the head's slots.
 *
 * @remarks Feng et al. 2025, arXiv:2510.13334. Each row is pooled and keeps its mass before the window. Weights on KV
 * rows `[G, n]`; the window is forced. The paper also weighs by the size of the value in the output: compose with
 * `outputShare()` after it. O(w H n d).
 */
export const worstCaseAttention = weightScorer(
  'worstCaseAttention',
  {
    source: 'Feng et al. 2025, arXiv:2510.13334',
    says: 'The largest attention from any of the last queries, and at least its mean.',
    options: {
      window: count(32, 'queries', 'Last queries that are looked at, whose own slots stay.'),
      kernel: odd(5, 'Width of the mean over neighbouring slots.'),
    },
    ...lastQueries,
  },
  (ctx, { window, kernel }) => {
    const { ops, at } = ctx;
    const last = ops.lastSlots(ctx.keys, window);
    const open = ops.sub(1, last);
    const worst = overWindow(ctx, 'max', at.kvHeads, (block) => {
      const before = ops.mul(blockAttention(ctx, block), open);
      const smooth = ops.pool(before, { kernel, kind: 'mean', except: window });
      return ops.mul(smooth, ops.div(ops.sum(before), ops.max(ops.sum(smooth), 1e-30)));
    });
    const mean = ops.div(ops.sum(worst), ops.max(ops.sum(open), 1));
    return { scores: ops.mul(open, ops.max(worst, mean)), forced: last };
  },
);
