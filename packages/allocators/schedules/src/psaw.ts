import { hide, whole } from '@kv/core';
import { baseOption, power, reachOf } from './decay.ts';

/**
 * PSAW: a query at position t of a layer in the top quarter attends to the sinks and to positions from ⌊(1 - φ^(α
 * (ℓ - ℓ_s) / (N - ℓ_s))) t⌋ on.
 *
 * @remarks PrHS, eq. 15, in prefill and while decoding. Reads no signal; the bound never falls, so what it hides in a
 * layer could be evicted there.
 */
export const psaw = hide(
  'psaw',
  {
    source: 'PrHS (CIS, PSAW, ETF), eq. 15',
    says: 'Windows that narrow towards the last layer.',
    options: {
      sinks: whole(4, 'positions', 'First positions, always visible.'),
      phi: baseOption(0.7, 'What is left of the window in the top layer; 1 hides nothing.'),
      alpha: power,
    },
    during: 'both',
  },
  ({ at }, { sinks, phi, alpha }) => {
    const part = reachOf(at, phi, alpha);
    return { sinks, lower: (t) => Math.floor(part * t) };
  },
);
