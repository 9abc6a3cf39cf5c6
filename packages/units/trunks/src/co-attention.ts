import type { ProviderEngine, Signal } from '@kv/core';
import { collector } from './edges.ts';

/** What the first layer's attention says about tokens and pairs of tokens, by position, evicted ones included. */
export interface CoAttention {
  /** Attention that each token receives from its own chunk, summed over the three heads that give most, `[N]`. */
  readonly saliency: Float32Array;
  /** Directed edges, ascending in `from`; a pair may stand in both directions. */
  readonly from: Uint32Array;
  readonly to: Uint32Array;
  readonly weight: Float32Array;
}

/** One result a sequence and length: every layer's event asks for the same. */
const known = new WeakMap<readonly number[], { readonly length: number; readonly value: Promise<CoAttention> }>();

async function collect(engine: ProviderEngine): Promise<CoAttention> {
  const edges = collector(engine.ids.length);
  await engine.attentionRows(0, edges.add);
  return edges.take();
}

/**
 * Co-attention edges and saliency of the first layer.
 *
 * @remarks CrystalCache, section 3.2, eq. 11 to 15. The provider runs the first layer once more over the whole sequence and streams its attention rows: O(n k)
 * memory beside one chunk's 1024 x 1024 block, where the paper holds n x n.
 */
export const coAttention: Signal<'coAttention', CoAttention> = {
  id: 'crystalcache.co-attention', as: 'coAttention', cost: 'pass',
  provide: (engine) => {
    const before = known.get(engine.ids);
    if (before?.length === engine.ids.length) return before.value;
    const value = collect(engine);
    known.set(engine.ids, { length: engine.ids.length, value });
    return value;
  },
};
