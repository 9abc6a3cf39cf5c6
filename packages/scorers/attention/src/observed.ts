import { positions } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { groupMean, sumsOf } from './sums.ts';
import type { SumOptions } from './sums.ts';

/**
 * Observed attention: the mean attention that a slot received from the queries that could see it.
 *
 * @remarks kvpress' ObservedAttention, related to H2O: A_p / (length - p) for position p. Weights on query rows `[H,
 * n]`, or with `rows: 'kv'`
 * on KV rows `[G, n]`, the mean over the group. Costs a statistic over every query.
 * @throws KvError if `rows` is another word.
 */
export function observed({ rows = 'query' }: SumOptions = {}): Weigher<'observed'> {
  const signal = sumsOf('observed', rows);
  return weigher({ name: 'observed', options: { ...signal.args } }, [signal, positions], (ctx) =>
    ctx.ops.div(groupMean(ctx, rows), ctx.ops.sub(ctx.at.length, ctx.positions)),
  );
}
