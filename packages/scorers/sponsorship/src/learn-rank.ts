import { number, part, positions, tokens, weightScorer } from '@kv/core';
import { beside, besideOf } from './detector.ts';
import type { Anchor } from './detector.ts';
import { learnedRank } from './learned.ts';
import { fading, vouchFor, vouchingOptions } from './vouching.ts';

/**
 * LearnRank: anchors vouch by their confidence f, V_j = Σ f_i 0.8^(j - i) over i < j <= i + L with f_i > 0.3.
 *
 * @remarks Transactional Attention, eq. 5. Weights on KV rows `[G, n]`. The paper prints no strength: 15,
 * sponsorship's, is ours; with 1 a voucher falls below recency within three tokens.
 */
export const learnRank = weightScorer(
  'learnRank',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 5',
    says: 'Anchors vouch as much as they are sure.',
    options: {
      rank: part(learnedRank(), 'How surely each token is an anchor.'),
      above: number(0.3, 'Anchors are tokens above it.', { least: 0, most: 1 }),
      ...vouchingOptions(15),
    },
    needs: (o) => [tokens, positions, ...fading.needs(o), ...beside(o.rank)],
    hooks: fading.hooks,
  },
  (ctx, o) => {
    const { rank, above } = o;
    const anchors = (): readonly Anchor[] =>
      Array.from(rank.run(ctx.tokens, besideOf(ctx, rank))).flatMap((worth, position) =>
        worth > above ? { position, worth } : [],
      );
    return vouchFor(ctx, anchors, o);
  },
);
