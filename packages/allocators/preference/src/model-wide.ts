import { modelAllocator } from '@kv/core/old';
import type { ScoreAllocator, Tensor } from '@kv/core';
import { shareOfBest } from './border.ts';

/**
 * One budget for the whole model: every slot of every layer and KV head competes, and the best stay wherever they are.
 *
 * @remarks KVzip's budgets (Kim et al. 2025, arXiv:2505.23416) and, over `defensive` and `outputShare`, those of
 * Layer-DefensiveKV (Feng et al. 2025, arXiv:2510.13334), with an exact sum. Forced slots count first;
 * of equal scores those of the first layer and head stay. Scores of different layers are compared as they are. Budgets
 * `[G, 1]` of the sum that comes in. O(150 L G n), no sort.
 */
export const modelWide = (): ScoreAllocator<'modelWide'> =>
  modelAllocator('modelWide', [], (layers) => {
    const { ops } = layers[0];
    const competing = layers.map(({ at, scores, forced, banned, budgets }) => {
      const onRows = (kind: 'mean' | 'max', x: Tensor): Tensor =>
        ops.add(x.shape[0] > at.kvHeads ? ops.groupRows(kind, x, at.kvHeads) : x, ops.mul(budgets, 0));
      const s = onRows('mean', scores),
        must = forced ? onRows('max', forced) : ops.fill(s, 0),
        out = banned ? ops.max(must, onRows('max', banned)) : must;
      return { scores: s, sure: ops.reduce('sum', must, 'slots'), open: ops.less(out, 1) };
    });
    const total = layers.map(({ budgets }) => ops.reduce('sum', budgets, 'rows')).reduce((a, b) => ops.add(a, b));
    return shareOfBest(ops, competing, total).map((budgets) => ({ budgets }));
  });
