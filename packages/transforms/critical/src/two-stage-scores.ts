import { number, outputNorms, scoreTransform, share } from '@kv/core';

/**
 * CriticalKV: keeps the best ⌊first · B⌋ slots of a head by their scores; scores all others again as (s + epsilon)
 * times the size of their value's contribution to the layer's output, |v W_O|_1, mean over the head group.
 *
 * @remarks Feng et al. 2025, arXiv:2502.03805. Scores come out on KV rows `[G, n]`; slots already forced count as best.
 * B is the head's current budget: after an allocator, the allocator's. The norms cost the layer's output product over
 * every slot.
 */
export const twoStageScores = scoreTransform(
  'twoStageScores',
  {
    source: 'Feng et al. 2025, arXiv:2502.03805',
    says: 'The best by score stay; the others are scored by the size of their value in the output, too.',
    options: {
      first: share(0.5, 'Share of the budget that the scores alone decide.'),
      epsilon: number(1e-4, 'Added to the scores before they are scaled.', { least: 0 }),
    },
    needs: [outputNorms],
    minSlots: ({ first }, slots, budget) => Math.min(slots, Math.floor(first * budget)),
  },
  ({ ops, at: { kvHeads: G }, scores, outputNorms: norms, budgets, forced }, { first, epsilon }) => {
    const s = ops.reduceRows('mean', scores, G);
    const size = ops.reduceRows('mean', norms, G);
    const least = ops.map('floor', ops.mul(budgets, first)); // [G, 1]
    const best = ops.top(s, least, { forced: forced && ops.reduceRows('max', forced, G) });
    return { scores: ops.mul(ops.add(s, epsilon), size), forced: best };
  },
);
