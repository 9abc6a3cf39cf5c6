import { positions, weightScorer } from '@kv/core';
import { groupMean, rows, sumsOf } from './sums.ts';

/**
 * Observed attention: the mean attention that a slot received from the queries that could see it.
 *
 * @remarks kvpress' ObservedAttention, related to H2O: A_p / (length - p) for position p. Weights on query rows
 * `[H, n]`, or with `rows: 'kv'` on KV rows `[G, n]`, the mean over the group. Costs a statistic over every query.
 */
export const meanAttention = weightScorer(
  'meanAttention',
  {
    source: 'kvpress',
    says: 'Mean attention of the queries that could see a slot.',
    options: { rows },
    needs: (o) => [sumsOf(o.rows), positions],
  },
  (ctx, o) => ctx.ops.div(groupMean(ctx, o.rows), ctx.ops.sub(ctx.at.length, ctx.positions)),
);
