import { part, positions, tokens, weightScorer } from '@kv/core';
import { beside, foundBy } from './detector.ts';
import { regex } from './regex.ts';
import { fading, vouchFor, vouchingOptions } from './vouching.ts';

/**
 * Sponsorship: anchors such as `password:` vouch for the L tokens after them, V_j = Σ B_i 0.8^(j - i) over anchors
 * i < j <= i + L; with `reach: 'value'` for the whole value after each, V_j = max B_i over the anchors i whose value
 * holds j.
 *
 * @remarks Transactional Attention, eq. 2 and algorithm 1. Weights on KV rows `[G, n]`, 0 away from anchors; an anchor
 * vouches also after it is evicted itself. B_i starts at B and is multiplied by `decay` for every generated token, not
 * for a prefill block. Whole values are ours: the paper's six tokens are the head of a longer value, which the model then
 * makes up the rest of; and a budget that decays is gone long before a conversation ends. Reads no attention.
 */
export const sponsorship = weightScorer(
  'sponsorship',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 2',
    says: 'Anchors such as `password:` vouch for the tokens after them.',
    options: { ...vouchingOptions(15), anchors: part(regex(), 'What finds anchors.') },
    needs: (o) => [tokens, positions, ...fading.needs(o), ...beside(o.anchors)],
    hooks: fading.hooks,
  },
  (ctx, o) => vouchFor(ctx, () => foundBy(o.anchors, ctx), o),
);
