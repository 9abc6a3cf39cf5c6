import { positions, weigher, whole } from '@kv/core';
import type { Signal } from '@kv/core';

/**
 * The largest weight that each slot receives while the model is made to repeat the context, f32 `[H, n]`: a second pass
 * over it.
 */
export const reconstruction: Signal<'attention'> = {
  id: 'reconstruction',
  as: 'attention',
  cost: 'pass',
  provide: (engine, layer) =>
    engine.observeMax([...engine.encode('\n\nRepeat the previous context exactly.\n'), ...engine.ids], layer),
};

/**
 * KVzip: the largest attention weight that a slot receives from the query heads of its group while the model repeats
 * the context, so nothing about a later question is needed.
 *
 * @remarks Kim et al. 2025, arXiv:2505.23416. Weights on KV rows `[G, n]`; sinks score 1. Costs a second prefill, and
 * runs once the whole prompt is there. The repetition is one pass over the whole cache, where the authors take chunks
 * of 2,000 tokens.
 */
export const kvzip = weigher(
  'kvzip',
  {
    source: 'Kim et al. 2025, arXiv:2505.23416',
    says: 'The largest weight while the model repeats the context.',
    options: { sinks: whole(4, 'positions', 'First positions, which score 1.') },
    needs: [reconstruction, positions],
  },
  ({ ops, at, attention, positions: p }, { sinks }) =>
    ops.where(ops.less(p, sinks), 1, ops.groupRows('max', attention, at.kvHeads)),
);
