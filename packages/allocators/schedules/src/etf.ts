import { freeze, whole } from '@kv/core';
import { left, power, reached } from './decay.ts';

/**
 * ETF: in a layer of the top quarter, positions below ⌊(1 - ψ^(γ (ℓ - ℓ_s) / (N - ℓ_s))) t⌋, t the prompt's length,
 * keep the previous layer's hidden state, keys and values, and go through no matrix product.
 *
 * @remarks PrHS, eq. 16, figure 5 and appendix G. Prefill only.
 */
export const etf = freeze(
  'etf',
  {
    source: 'PrHS (CIS, PSAW, ETF), eq. 16',
    says: 'Early positions are no longer computed in the top quarter of the layers.',
    options: {
      sinks: whole(4, 'positions', 'First positions, never frozen.'),
      psi: left(0.5, 'Share of the prompt that the top layer still computes; 1 freezes nothing.'),
      gamma: power,
    },
  },
  (at, { sinks, psi, gamma }) => ({ sinks, below: Math.floor(reached(at, psi, gamma) * at.promptLength) }),
);
