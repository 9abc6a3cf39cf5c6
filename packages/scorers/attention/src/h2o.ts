import { attentionBlock, oneOf, shareOrCount, weightScorer } from '@kv/core';
import { groupMean, rows, sumsOf } from './sums.ts';

const recentSlots = (recent: number, budget: number): number => (recent < 1 ? Math.floor(budget * recent) : recent);

/**
 * H2O: the attention that a slot received, summed over all queries so far, with a recent window kept.
 *
 * @remarks Zhang et al. 2023, arXiv:2306.14048. Weights on query rows `[H, n]`, or with `rows: 'kv'` on KV rows
 * `[G, n]`, the mean over the group. Sums are carried across events, compacted with the cache, and never normalised by
 * age. Costs a statistic over every query.
 */
export const h2o = weightScorer(
  'h2o',
  {
    source: 'Zhang et al. 2023, arXiv:2306.14048',
    says: 'Attention summed over all queries, and a recent window.',
    options: {
      recent: shareOrCount(0.5, 'slots', 'Recent slots that always stay, as a share of the budget or a count.'),
      over: oneOf(
        ['accumulated', 'block'],
        'accumulated',
        "Sum over every query so far, or over the newest block's only, as CAOTE's paper runs it.",
      ),
      rows,
    },
    check: (o) => o.over === 'block' && o.rows === 'kv' && "expected rows 'query' over a block, got 'kv'",
    needs: (o) => [o.over === 'block' ? attentionBlock : sumsOf(o.rows)],
    ends: ({ recent }, budget) => ({ last: recentSlots(recent, budget) }),
  },
  (ctx, o) => ({
    scores: groupMean(ctx, o.rows),
    forced: ctx.ops.lastSlots(ctx.attention, recentSlots(o.recent, ctx.at.budget)),
  }),
);
