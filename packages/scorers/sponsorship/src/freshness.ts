import { as, state } from '@kv/core';
import { onStep } from '@kv/core/old';
import type { Hooked, Signal } from '@kv/core';

/** Freshness of every position, f32 `[1, N]`: 1 when it is new, times `decay` after every token generated since. */
export const freshness = (decay: number): Signal<'fresh'> =>
  as('fresh', state(`freshness(${decay})`, { kind: 'position', rows: 'model', init: 1 }));

/** The step hook that ages it, once a token for the whole model. */
export function aging(decay: number): Hooked<'aging'> {
  const fresh = freshness(decay);
  return onStep(
    { name: 'aging', options: { decay } },
    [fresh],
    ({ ops, fresh: now }) => ({ fresh: ops.mul(now, decay) }),
    'model',
  );
}
