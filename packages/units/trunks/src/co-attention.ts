import { count } from '@kv/core';
import type { ProviderEngine, Signal } from '@kv/core';
import { CHUNK, collector } from './edges.ts';
import type { CoAttention, Collector } from './edges.ts';
import { foldedCollector } from './folded-collector.ts';
import type { FoldedCollector } from './folded-collector.ts';

interface Known {
  readonly edges: Collector | FoldedCollector;
  readonly prompt: number;
  length: number;
  value: Promise<CoAttention>;
}
/** Option of pieces that read co-attention. */
export const chunk = count(
  CHUNK,
  'tokens',
  'Tokens of the prompt whose attention is compared with each other; tokens of different chunks are linked by attention itself.',
  { most: 4096 },
);

/** Collectors by sequence and chunk: every layer's event asks for the same, and a later event adds the new tokens. */
const known = new WeakMap<readonly number[], Map<number, Known>>();

async function collect({ edges }: Known, engine: ProviderEngine, from: number): Promise<CoAttention> {
  if ('fold' in edges) await edges.fold(engine, from);
  else await engine.attentionRows(0, edges.add, from);
  return edges.take();
}

/**
 * Signal: co-attention edges and saliency of the first layer, over chunks of `size` tokens of the prompt.
 *
 * @remarks CrystalCache, section 3.2, eq. 11 to 15. The provider runs the first layer again over the whole sequence and
 * streams its attention rows: O(n k) memory in addition to one chunk's block of `size` x `size`, where the paper holds
 * n x n; an engine on a device reduces them there. For generated tokens it runs only the new rows, with edges to the
 * tokens that they attend to.
 */
export const coAttention = (size: number = CHUNK): Signal<'coAttention', CoAttention> => ({
  id: 'crystalcache.co-attention',
  as: 'coAttention',
  args: { chunk: size },
  cost: 'pass',
  provide: (engine) => {
    const {
        ids: { length },
        promptLength: prompt,
      } = engine,
      ofSequence = known.get(engine.ids) ?? new Map<number, Known>(),
      before = ofSequence.get(size),
      goes = before?.prompt === prompt && before.length <= length;
    if (goes && before.length === length) return before.value;
    const make = engine.attentionStretches ? foldedCollector : collector,
      now = { edges: goes ? before.edges : make({ prompt, chunk: size }), prompt, length } as Known;
    // a pass that failed, or was aborted, may have added a part of the new tokens: the next one begins with the first token
    now.value = collect(now, engine, goes ? before.length : 0).catch((error: unknown) => {
      if (ofSequence.get(size) === now) ofSequence.delete(size);
      throw error;
    });
    known.set(engine.ids, ofSequence.set(size, now));
    return now.value;
  },
});
