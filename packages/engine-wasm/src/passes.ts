import { layerPasses, type ActivePolicy, type PassOptions, type TokenPasses } from '@kv/engine';
import { DecodeSlot } from './batched-decode.ts';
import type { FusedPass } from './fused-pass.ts';

/**
 * Returns passes that run fused where caches lie in the module's memory. Views and frozen rows, which act between a
 * layer's queries and its attention, and heads of a width that the module's attention does not support, use the host's
 * pass over the same caches. Tokens of several sequences are batched.
 */
export function wholePasses(whole: FusedPass): TokenPasses {
  return {
    store: whole.store,
    counters: { whole: 0, layered: 0, together: 0 },
    group: whole.group,
    async pass(memory, ids, options) {
      const { place } = options,
        inOne = whole.attends && passesWhole(options.course, options.phase),
        { counters } = memory;
      if (inOne) counters.whole = (counters.whole ?? 0) + 1;
      else counters.layered = (counters.layered ?? 0) + 1;
      if (inOne && place instanceof DecodeSlot && ids.length === 1 && !options.afterLayers)
        return place.pass(memory, ids[0], options);
      // the others need not wait for a pass that is not batched
      place?.leave();
      return inOne ? whole.pass(memory, ids, options) : layerPasses.pass(memory, ids, options);
    },
  };
}

/** Returns whether nothing in this phase acts between a layer's queries and its attention. */
const passesWhole = ({ policy }: ActivePolicy, phase: PassOptions['phase']): boolean =>
  policy.hooks('view').every(({ during }) => during !== 'both' && during !== phase) &&
  (phase === 'decode' || policy.hooks('freeze').length === 0);
