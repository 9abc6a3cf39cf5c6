import { freeze, oneOf, whole } from '@kv/core';
import { baseOption, power, reachOf } from './decay.ts';

/**
 * ETF: in a layer of the top quarter, positions below ⌊(1 - ψ^(γ (ℓ - ℓ_s) / (N - ℓ_s))) t⌋ of a prompt of length t
 * keep the previous layer's hidden state, without attention or feed-forward layer.
 *
 * @remarks PrHS, eq. 16, sections IV-C and IV-E, figure 5; `reuse: 'kv'` is appendix G. Prefill only.
 */
export const etf = freeze(
  'etf',
  {
    source: 'PrHS (CIS, PSAW, ETF), eq. 16',
    says: 'Early positions are no longer updated in the top quarter of the layers.',
    options: {
      sinks: whole(4, 'positions', 'First positions, never frozen.'),
      psi: baseOption(0.5, 'Share of the prompt that the top layer still updates; 1 freezes nothing.'),
      gamma: power,
      reuse: oneOf(
        ['hidden', 'kv'],
        'hidden',
        "What a frozen position takes from the layer below: its hidden state, which the layer projects, or keys and values too, as the bound's proof has it.",
      ),
    },
    copies: ({ reuse }) => reuse === 'kv',
  },
  (at, { sinks, psi, gamma }) => ({ sinks, below: Math.floor(reachOf(at, psi, gamma) * at.promptLength) }),
);
