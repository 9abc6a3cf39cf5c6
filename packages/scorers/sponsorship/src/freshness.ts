import { as, onStep, share, state } from '@kv/core';
import type { Signal } from '@kv/core';

/**
 * Signal: freshness of every position, f32 `[1, N]`: 1 for a new one, times `decay` for every token generated since.
 */
export const freshness = (decay: number): Signal<'fresh'> =>
  as('fresh', state(`freshness(${decay})`, { kind: 'position', rows: 'model', init: 1 }));

/** Step hook that applies the decay, once a token for the whole model, to all tokens but the newest. */
export const aging = onStep(
  'aging',
  {
    options: { decay: share(0.9, "What is left of an anchor's budget after every generated token.") },
    needs: ({ decay }) => [freshness(decay)],
    reach: 'model',
  },
  ({ ops, fresh }, { decay }) => ({ fresh: ops.where(ops.lastSlots(fresh, 1), fresh, ops.mul(fresh, decay)) }),
);
