import { number, scoreAllocator, whole } from '@kv/core';
import { borderOfBest } from './search.ts';
import { budgetsByWeight } from './share-out.ts';

/**
 * DynamicKV: a layer gets slots by how many of its scores are among the best of the whole model.
 *
 * @remarks Zhou et al. 2024, arXiv:2412.14838, with the budgets of its last update and an exact sum; the authors update
 * every fourth layer during prefill. Scores before the window, mean over the head group; the threshold of the best is
 * found to 2^-40 of their range. All KV heads of a layer get the same budget, unless a shorter head cannot hold it.
 * Wants scores of at least 0.
 */
export const topScoreBudgets = scoreAllocator(
  'topScoreBudgets',
  {
    source: 'Zhou et al. 2024, arXiv:2412.14838',
    says: 'Budgets of layers by how many of their scores are among the best of the model.',
    options: {
      window: whole(32, 'slots', "Slots of the scorer's window, which every layer keeps."),
      most: number(10, 'No layer gets more than this many times the mean budget before the window.', { least: 1 }),
    },
    acrossLayers: (layers, { window, most }) => {
      const [{ ops, at }] = layers;
      const open = layers.map(({ scores, forced }) => ops.where(forced || ops.lastSlots(scores, window), -1, scores));
      const want = layers
        .map(({ budgets }) => ops.reduce('sum', ops.max(0, ops.sub(budgets, window)), 'rows'))
        .reduce((a, b) => ops.add(a, b));
      const top = open
        .map((s) => ops.reduce('max', ops.reduce('max', s, 'slots'), 'rows'))
        .reduce((a, b) => ops.max(a, b));
      const [low] = borderOfBest(ops, open, want, ops.fill(want, 0), top);
      const weights = open.map((s) => ops.reduce('sum', ops.sum(ops.atLeast(s, low)), 'rows'));
      return budgetsByWeight(layers, weights, window, window + Math.floor(most * Math.max(1, at.budget - window)));
    },
  },
  ({ acrossLayers, index }) => ({ budgets: acrossLayers[index] }),
);
