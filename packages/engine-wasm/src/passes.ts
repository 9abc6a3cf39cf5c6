import { layerPasses, termOf, readsLayerInput, viewsActing, type TokenPasses } from '@kv/engine';
import { DecodeSlot } from './batched-decode.ts';
import { blockHooks, hooksPrompt } from './block-hooks.ts';
import type { FusedPass } from './fused-pass.ts';
import { tokenViews } from './token-views.ts';

/**
 * Returns passes that run fused where caches lie in the module's memory. Views of blocks that read signals or choose
 * single slots, and heads of a width that the module's attention does not support, use the host's pass over the same
 * caches, as blocks do that a term joins. Tokens of several sequences are batched, unless the host must ask views, or
 * compute a term or input signals, layer by layer.
 */
export function fusedPasses(fused: FusedPass): TokenPasses {
  return {
    store: fused.store,
    counters: { fusedPasses: 0, layeredPasses: 0, batchedPasses: 0 },
    group: fused.group,
    async pass(caches, ids, options) {
      const { batch, phase, active } = options,
        prompt = phase === 'prefill',
        hooked = prompt ? hooksPrompt(active) : viewsActing(active.policy, phase).length > 0,
        // a layer's input is read between two layers
        between = hooked && !prompt && readsLayerInput(active.policy),
        within = hooked && prompt && fused.attends ? blockHooks(caches, ids.length, active) : undefined,
        token = ids.length === 1 && !options.afterLayers,
        // what views show to a token can be listed
        listed = hooked && !prompt && token,
        // an observer is shown what views chose, which the host then does
        views = listed && !options.seen ? tokenViews(caches, options) : undefined,
        terms = caches.layers.some((layer) => termOf(active, layer)),
        // a term of a token is computed within each layer, and input signals before it
        hosted = terms || caches.inputs.signals.length > 0,
        fuses =
          fused.attends &&
          !between &&
          (!hosted || !hooked) &&
          (!terms || token) &&
          (!hooked || within !== undefined || listed),
        { counters } = caches.context;
      if (fuses) counters.fusedPasses = (counters.fusedPasses ?? 0) + 1;
      else counters.layeredPasses = (counters.layeredPasses ?? 0) + 1;
      if (fuses && !hosted && (!hooked || views) && batch instanceof DecodeSlot && token)
        return batch.pass(caches, ids[0], { ...options, ...(views && { views }) });
      // the others need not wait for a pass that is not batched
      batch?.leave();
      return fuses
        ? fused.pass(caches, ids, { ...options, within, hosted, ...(views ? { views } : { viewed: listed }) })
        : layerPasses.pass(caches, ids, options);
    },
  };
}
