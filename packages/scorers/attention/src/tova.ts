import { attentionLast, flag, layerMean, positions, weightScorer } from '@kv/core';

/**
 * TOVA: the newest query's attention, averaged over all heads of the layer, which therefore keep the same tokens.
 *
 * @remarks Oren et al. 2024, arXiv:2401.06104. Weights on one layer row `[1, n]`, aligned by position where heads hold
 * different tokens. O(H n d).
 */
export const tova = weightScorer(
  'tova',
  {
    source: 'Oren et al. 2024, arXiv:2401.06104',
    says: "The newest query's attention, one set a layer.",
    options: { forceLast: flag(true, "The newest token stays, as in kvpress; not so in the authors' code.") },
    needs: [attentionLast, positions],
    ends: ({ forceLast }) => ({ last: Number(forceLast) }),
  },
  (ctx, { forceLast }) => {
    const scores = layerMean(ctx, ctx.attention);
    return { scores, forced: forceLast ? ctx.ops.lastSlots(scores, 1) : 0 };
  },
);
