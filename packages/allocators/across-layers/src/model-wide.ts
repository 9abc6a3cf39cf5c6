import { scoreAllocator } from '@kv/core';
import { shareOfBest } from './border.ts';

/**
 * One budget for the whole model: every slot of every layer and KV head competes, and the best stay.
 *
 * @remarks KVzip's budgets (Kim et al. 2025, arXiv:2505.23416) and, over `worstCaseAttention` and `outputShare`, those of
 * Layer-DefensiveKV (Feng et al. 2025, arXiv:2510.13334), with an exact sum. Forced slots count first; of equal scores
 * those of the first layer and head stay. Scores of different layers are compared as they are. Budgets `[G, 1]` with
 * the sum of the incoming ones. O(150 L G n), no sort.
 */
export const modelWide = scoreAllocator(
  'modelWide',
  {
    source: 'Kim et al. 2025, arXiv:2505.23416; Feng et al. 2025, arXiv:2510.13334',
    says: 'One budget for the whole model: the best slots of all layers and heads stay.',
    acrossLayers: (layers) => {
      const [{ ops }] = layers;
      const competing = layers.map(({ scores, forced, banned }) => {
        const must = ops.max(ops.fill(scores, 0), forced);
        return { scores, sure: ops.sum(must), open: ops.not(ops.max(must, banned)) };
      });
      const total = layers.map(({ budgets }) => ops.reduce('sum', budgets, 'rows')).reduce((a, b) => ops.add(a, b));
      return shareOfBest(ops, competing, total);
    },
  },
  ({ acrossLayers, index }) => ({ budgets: acrossLayers[index] }),
);
