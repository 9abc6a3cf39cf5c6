import { certificate } from '@kv/certificates';
import type { Observer } from '@kv/models';
import type { Numbers } from './types.ts';

/**
 * Observes what views hid from the newest query of every head, layer and token: means of the hidden mass, of the
 * overlap with equally many heaviest slots, and of the number of visible slots.
 */
export function hidden(): Observer & { numbers(): Numbers } {
  let rows = 0,
    mass = 0,
    overlap = 0,
    seen = 0;
  return {
    row({ at, weights, kept }) {
      if (at !== 'view') return;
      const found = certificate(weights, kept);
      rows++;
      mass += found.dropped;
      overlap += found.overlap;
      seen += kept.length;
    },
    conclude: () => ({}),
    numbers: () => (rows === 0 ? {} : { hiddenMass: mass / rows, overlap: overlap / rows, slots: seen / rows }),
  };
}
