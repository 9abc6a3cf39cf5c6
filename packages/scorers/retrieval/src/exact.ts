import { attentionLast, weightScorer } from '@kv/core';

/**
 * The attention weights of the newest query themselves: inside `view` the true top-k of every query, the best that
 * hiding a set of that size can do in mass.
 *
 * @remarks The oracle that PrHS (Zhang et al.) measures against. Weights on query rows `[H, n]`. Reads every key, so it
 * saves nothing: a yardstick.
 */
export const exact = weightScorer(
  'exact',
  { source: 'PrHS (CIS, PSAW, ETF)', says: "The newest query's attention itself.", needs: [attentionLast] },
  ({ attention }) => attention,
);
