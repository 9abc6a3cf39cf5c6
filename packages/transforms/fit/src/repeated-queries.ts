import type { PlacedQueries, Signal } from '@kv/core';
import { repeating } from '@kv/core/shared';

/**
 * Signal: w queries of a model that is made to repeat the context, evenly over it (all of them, if it is shorter), after
 * RoPE. They stand after the context and the instruction to repeat it. Costs a second pass over the context.
 */
export const repeatedQueries = (w: number): Signal<'repeated', PlacedQueries> => ({
  id: 'queries.repeated',
  as: 'repeated',
  args: { w },
  cost: 'pass',
  feeds: repeating,
  provide(engine, layer) {
    const ids = repeating(engine),
      { length: n } = engine.ids,
      count = Math.min(w, n),
      chosen = Array.from({ length: count }, (_, i) => ids.length - n + Math.floor(((i + 1) * n) / count) - 1);
    return engine.queriesOf(ids, chosen, layer);
  },
});
