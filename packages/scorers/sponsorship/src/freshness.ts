import { as, onStep, share, state } from '@kv/core';
import type { Signal } from '@kv/core';

/** Freshness of every position, f32 `[1, N]`: 1 when it is new, times `decay` after every token generated since. */
export const freshness = (decay: number): Signal<'fresh'> =>
  as('fresh', state(`freshness(${decay})`, { kind: 'position', rows: 'model', init: 1 }));

/** The step hook that ages it, once a token for the whole model. */
export const aging = onStep(
  'aging',
  {
    options: { decay: share(0.9, "What is left of an anchor's budget after every generated token.") },
    needs: ({ decay }) => [freshness(decay)],
    reach: 'model',
  },
  ({ ops, fresh }, { decay }) => ({ fresh: ops.mul(fresh, decay) }),
);
