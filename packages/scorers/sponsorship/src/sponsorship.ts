import { part, positions, tokens, weightScorer } from '@kv/core';
import { anchorRow, beside } from './detector.ts';
import { aging, freshness } from './freshness.ts';
import { regex } from './regex.ts';
import { vouchFor, vouchingOptions } from './vouching.ts';

/**
 * Sponsorship: anchors such as `password:` vouch for the L tokens after them, V_j = Σ B_i 0.8^(j - i) over anchors
 * i < j <= i + L.
 *
 * @remarks Transactional Attention, eq. 2 and algorithm 1. Weights on KV rows `[G, n]`, 0 away from anchors; an anchor
 * vouches also after it is evicted itself. B_i starts at B and is multiplied by `decay` for every generated token, not
 * for a prefill block. Reads no attention.
 */
export const sponsorship = weightScorer(
  'sponsorship',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 2',
    says: 'Anchors such as `password:` vouch for the tokens after them.',
    options: { ...vouchingOptions(15), anchors: part(regex(), 'What finds anchors.') },
    needs: ({ decay, anchors }) => [tokens, positions, freshness(decay), ...beside(anchors)],
    hooks: ({ decay }) => [aging({ decay })],
  },
  (ctx, o) => vouchFor(ctx, anchorRow(ctx, o), o),
);
