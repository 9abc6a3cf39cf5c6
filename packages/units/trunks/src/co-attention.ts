import type { ProviderEngine, Signal } from '@kv/core';
import { collector } from './edges.ts';
import type { CoAttention, Collector } from './edges.ts';
import { foldedCollector } from './folded-collector.ts';
import type { FoldedCollector } from './folded-collector.ts';

interface Known {
  readonly edges: Collector | FoldedCollector;
  readonly prompt: number;
  length: number;
  value: Promise<CoAttention>;
}
/** Collectors by sequence: every layer's event asks for the same, and a later event adds the new tokens. */
const known = new WeakMap<readonly number[], Known>();

async function collect({ edges }: Known, engine: ProviderEngine, from: number): Promise<CoAttention> {
  if ('fold' in edges) await edges.fold(engine, from);
  else await engine.attentionRows(0, edges.add, from);
  return edges.take();
}

/**
 * Signal: co-attention edges and saliency of the first layer.
 *
 * @remarks CrystalCache, section 3.2, eq. 11 to 15. The provider runs the first layer again over the whole sequence and
 * streams its attention rows: O(n k) memory in addition to one chunk's 1024 x 1024 block, where the paper holds n x n;
 * an engine on a device reduces them there. For generated tokens it runs only the new rows, with edges to the tokens
 * that they attend to.
 */
export const coAttention: Signal<'coAttention', CoAttention> = {
  id: 'crystalcache.co-attention',
  as: 'coAttention',
  cost: 'pass',
  provide: (engine) => {
    const {
        ids: { length },
        promptLength: prompt,
      } = engine,
      before = known.get(engine.ids),
      goes = before?.prompt === prompt && before.length <= length;
    if (goes && before.length === length) return before.value;
    const now = {
      edges: goes ? before.edges : engine.attentionStretches ? foldedCollector({ prompt }) : collector({ prompt }),
      prompt,
      length,
    } as Known;
    now.value = collect(now, engine, goes ? before.length : 0);
    known.set(engine.ids, now);
    return now.value;
  },
};
