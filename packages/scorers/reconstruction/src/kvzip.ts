import { flag, outputLengths, positions, weightScorer, whole } from '@kv/core';
import { repeating } from '@kv/core/shared';
import type { Signal } from '@kv/core';

/**
 * Signal: the largest weight that each slot receives while the model is made to repeat the context, f32 `[H, n]`. Costs
 * a second pass over the context.
 */
export const reconstruction: Signal<'attention'> = {
  id: 'reconstruction',
  as: 'attention',
  cost: 'pass',
  feeds: repeating,
  provide: (engine, layer) => engine.observeMax(repeating(engine), layer),
};
/** Signal: `reconstruction` with the weights of each query divided by |h|_2, h the layer's input for its token. */
export const reconstructionOverHidden: Signal<'attention'> = {
  ...reconstruction,
  args: { over: 'hidden' },
  provide: (engine, layer) => engine.observeMax(repeating(engine), layer, 'hidden'),
};

/**
 * KVzip: the largest attention weight that a slot receives from the query heads of its group while the model repeats
 * the context, so nothing about a later question is needed.
 *
 * @remarks Kim et al. 2025, arXiv:2505.23416. Weights on KV rows `[G, n]`; sinks are forced. Costs a second prefill,
 * and runs once the whole prompt is read. The repetition is one pass over the whole cache; the authors use chunks of
 * 2,000 tokens. `plus` is KVzip+ (Jégou and Jeblick 2026, arXiv:2601.07891), as kvpress' `kvzip_plus_normalization`:
 * the largest over queries and heads of a |v W_O|_2 / |h|_2.
 */
export const kvzip = weightScorer(
  'kvzip',
  {
    source: 'Kim et al. 2025, arXiv:2505.23416',
    says: 'The largest weight while the model repeats the context.',
    options: {
      sinks: whole(4, 'positions', 'First positions, which always stay.'),
      plus: flag(
        false,
        "KVzip+: weights times what the slot's value adds to the output, over the query's hidden state.",
      ),
    },
    needs: ({ plus }) => (plus ? [reconstructionOverHidden, outputLengths, positions] : [reconstruction, positions]),
    ends: ({ sinks: first }) => ({ first }),
  },
  ({ ops, at, attention, outputNorms: added, positions: p }, { sinks }) => ({
    scores: ops.reduceRows('max', added ? ops.mul(attention, added) : attention, at.kvHeads),
    forced: ops.less(p, sinks),
  }),
);
