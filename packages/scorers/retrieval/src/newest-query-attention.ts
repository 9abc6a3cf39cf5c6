import { attentionLast, weightScorer } from '@kv/core';

/**
 * Attention weights of the newest query. Inside `view` this is the exact top-k of every query, the most mass that a set
 * of that size can hold.
 *
 * @remarks The oracle that PrHS (Zhang et al.) measures against. Weights on query rows `[H, n]`. Reads every key, so it
 * saves nothing: a yardstick.
 */
export const newestQueryAttention = weightScorer(
  'newestQueryAttention',
  { source: 'PrHS (CIS, PSAW, ETF)', says: "The newest query's attention itself.", needs: [attentionLast] },
  ({ attention }) => attention,
);
