import { attentionWeights } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import { LayerCache } from '../cache/layer-cache.ts';
import { joinHeads, readersOf } from '../decoder/joined-heads.ts';
import type { Projection } from './decoder.ts';
import type { HostState } from './host-state.ts';

/** Tokens that join the cache together. A query's row is computed over at most this many slots that it cannot see. */
const BLOCK = 128;

/**
 * Feeds the whole sequence through the layers up to `layer` of an empty copy, and passes the attention rows of that
 * layer, `[H, query + 1]`, to the caller in order, from query `first` on.
 */
export async function attentionRows(
  caches: HostState,
  layer: number,
  visit: (query: number, rows: Float32Array) => void,
  first = 0,
  signal?: AbortSignal,
): Promise<void> {
  const { decoder, context } = caches,
    { counters, guard, form } = context,
    { ids } = context.progress.text,
    copy = caches.empty(),
    { kept } = copy,
    [own] = kept.readers[layer],
    last = kept.readers[layer].at(-1)!, // itself, if no other layer reads its slots
    readers = readersOf(kept, layer);
  let alone: LayerCache | undefined;
  try {
    const positions = Uint32Array.from(ids, (_, i) => i),
      m = ids.length,
      /** Queries of the layers that read its slots. */
      queries: Float32Array[] = [];
    let x = decoder.embed(ids),
      slots: Pick<Projection, 'k' | 'v'> | undefined;
    const inputs = await decoder.layerInputs(ids, x);
    for (const [at, { kind, at: l }] of kept.all.slice(0, last + 1).entries()) {
      await guard.between({ phase: 'prefill', signal });
      if (kind === 'state') {
        x = await decoder.finish(at, x, await decoder.mix(at, x, copy.states.all[l]), undefined, inputs);
        continue;
      }
      const { cache } = copy.layers[l],
        { q, k, v, gate } = await decoder.project(at, x, positions, ids.length);
      if (l === layer) queries.push(q);
      if (at === own) slots = { k, v };
      if (at === last) break;
      if (kind === 'slots') cache.append(k, v, positions, 0);
      x = await decoder.finish(
        at,
        x,
        await decoder.attend({ q, queryPositions: positions, cache, counters, ...layerAttention(decoder, at) }),
        gate,
        inputs,
      );
      if (kept.readers[l].at(-1) === at) cache.destroy(); // no later layer reads it
    }
    const { k, v } = slots!, // `own` is not above `last`
      { cache: whole } = copy.layers[layer],
      { heads, headDim: d } = whole,
      q = readers ? joinHeads(queries, readers, 1, m * d) : queries[0],
      H = q.length / (m * d);
    // queries that came before their slots: those are appended once more, block by block
    const cache = readers ? (alone = new LayerCache(heads, d, copy.context.ledger, { form })) : whole;
    for (let from = 0; from < m; from += BLOCK) {
      await guard.between({ phase: 'prefill', signal });
      const to = Math.min(m, from + BLOCK),
        part = (all: Float32Array): Float32Array => rowsOf(all, all.length / (m * d), m, d, from, to);
      cache.append(part(k), part(v), positions.subarray(from, to), 0);
      const start = Math.max(first, from);
      if (start >= to) continue;
      const weights = attentionWeights({
        q: rowsOf(q, H, m, d, start, to),
        queryPositions: positions.subarray(start, to),
        cache,
        counters,
        engine: decoder.rowEngine,
        ...layerAttention(decoder, own),
      });
      for (let i = start; i < to; i++)
        visit(i, rowsOf(rowsOf(weights, H, to - start, to, i - start, i - start + 1), H, to, 1, 0, i + 1));
    }
  } finally {
    alone?.destroy();
    context.ledger.countCopy(copy.context.ledger);
    copy.free();
  }
}

/** Returns entries [from, to) of the second axis of `[heads, size, width]`. */
export function rowsOf(
  all: Float32Array,
  heads: number,
  size: number,
  width: number,
  from: number,
  to: number,
): Float32Array {
  const out = new Float32Array(heads * (to - from) * width);
  for (let h = 0; h < heads; h++)
    out.set(all.subarray((h * size + from) * width, (h * size + to) * width), h * (to - from) * width);
  return out;
}
