import { layerPasses, type ActivePolicy, type PassOptions, type TokenPasses } from '@kv/engine';
import { DecodeSlot } from './batched-decode.ts';
import type { FusedPass } from './fused-pass.ts';

/**
 * Returns passes that run fused where caches lie in the module's memory. Views and frozen rows, which act between a
 * layer's queries and its attention, and heads of a width that the module's attention does not support, use the host's
 * pass over the same caches. Tokens of several sequences are batched.
 */
export function fusedPasses(fused: FusedPass): TokenPasses {
  return {
    store: fused.store,
    counters: { fusedPasses: 0, layeredPasses: 0, batchedPasses: 0 },
    group: fused.group,
    async pass(caches, ids, options) {
      const { batch } = options,
        fuses = fused.attends && canFuse(options.active, options.phase),
        { counters } = caches.context;
      if (fuses) counters.fusedPasses = (counters.fusedPasses ?? 0) + 1;
      else counters.layeredPasses = (counters.layeredPasses ?? 0) + 1;
      if (fuses && batch instanceof DecodeSlot && ids.length === 1 && !options.afterLayers)
        return batch.pass(caches, ids[0], options);
      // the others need not wait for a pass that is not batched
      batch?.leave();
      return fuses ? fused.pass(caches, ids, options) : layerPasses.pass(caches, ids, options);
    },
  };
}

/** Returns whether nothing in this phase acts between a layer's queries and its attention. */
const canFuse = ({ policy }: ActivePolicy, phase: PassOptions['phase']): boolean =>
  policy.hooks('view').every(({ during }) => during !== 'both' && during !== phase) &&
  (phase === 'decode' || policy.hooks('freeze').length === 0);
