import { attentionBlock, checkNumber, checkWord, KvError } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { groupMean, sumsOf } from './sums.ts';
import type { SumOptions } from './sums.ts';

export interface H2oOptions extends SumOptions {
  /** Recent slots that always stay: a share of the budget below 1, else a whole number. @defaultValue 0.5 */
  readonly recent?: number;
  /**
   * Sum over every query so far, or over the newest block's only (as CAOTE's paper runs it). @defaultValue
   * 'accumulated'
   */
  readonly over?: 'accumulated' | 'block';
}

/**
 * H2O: the attention that a slot received, summed over all queries so far, with a recent window kept.
 *
 * @remarks Zhang et al. 2023, arXiv:2306.14048. Weights on query rows `[H, n]`, or with `rows: 'kv'` on KV rows `[G,
 * n]`, the mean over
 * the group; carried across events and compacted with the cache; never normalised by age. Costs a statistic over every
 * query.
 * @throws KvError if `recent` is negative, or neither a share nor a whole number, `over` or `rows` another word, or KV
 * rows are asked of a block.
 */
export function h2o({ recent = 0.5, over = 'accumulated', rows = 'query' }: H2oOptions = {}): Weigher<'h2o'> {
  checkNumber(
    'h2o',
    'recent',
    recent,
    'a share of the budget below 1, or a whole number of slots',
    (r) => r >= 0 && (r < 1 || Number.isInteger(r)),
  );
  checkWord('h2o', 'over', over, ['accumulated', 'block']);
  const signal = sumsOf('h2o', rows),
    { args } = signal;
  if (over === 'block' && args) throw new KvError('h2o', "expected rows 'query' over a block, got 'kv'");
  const slots = (budget: number): number => (recent < 1 ? Math.floor(budget * recent) : recent);
  return weigher(
    {
      name: 'h2o',
      options: { recent, over: over === 'block' ? over : undefined, ...args },
      floor: (n, budget) => Math.min(n, slots(budget)),
    },
    [over === 'block' ? attentionBlock : signal],
    (ctx) => ({ scores: groupMean(ctx, rows), forced: ctx.ops.lastSlots(ctx.attention, slots(ctx.at.budget)) }),
  );
}
