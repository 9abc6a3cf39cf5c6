import { layerMean, positions, weightScorer } from '@kv/core';
import type { Signal } from '@kv/core';

/**
 * Signal: the largest weight that each slot receives while the model reads the context a second time, appended after
 * the first, f32 `[H, n]`. Costs a second pass over the context.
 */
export const rereading: Signal<'attention'> = {
  id: 'rereading',
  as: 'attention',
  cost: 'pass',
  feeds: ({ ids }) => ids,
  provide: (engine, layer) => engine.observeMax(engine.ids, layer),
};

/**
 * KVCompose's scores: the largest weight that a slot receives from each query head while the context is read again,
 * mean over the head group, plus the mean over all heads of the layer.
 *
 * @remarks Akulov et al. 2025, arXiv:2509.05165, as in kvpress' KVComposePress (`agg_task=max`, `agg_group=mean`).
 * Weights on KV rows `[G, n]`. Costs a second prefill, and runs once the whole prompt is read. Composite tokens are
 * budgets: compose with `compositeTokens()` after it.
 */
export const rereadingAttention = weightScorer(
  'rereadingAttention',
  {
    source: 'Akulov et al. 2025, arXiv:2509.05165',
    says: 'The largest weight while the context is read again, and its mean over the layer.',
    needs: [rereading, positions],
  },
  (ctx) => {
    const { ops, at, attention } = ctx;
    const each = ops.reduceRows('mean', attention, at.kvHeads);
    return ops.add(each, layerMean(ctx, each));
  },
);
