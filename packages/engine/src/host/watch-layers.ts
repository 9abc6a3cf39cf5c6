import { lastAttention } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import { LayerCache } from '../cache/layer-cache.ts';
import type { Angles } from '../decoder/program.ts';
import { Ledger } from '../ledger.ts';
import type { HostModel } from './runtime.ts';

/** Callbacks that observe a pass. */
export interface LayerWatch {
  /** Queries `[H, m, d]` of a layer's newest m tokens, with the angles that rotated them. */
  queries?(layer: number, q: Float32Array, angles: Angles): void;
  /** Keys `[G, m, d]` of a layer's newest m tokens, rotated. */
  keys?(layer: number, k: Float32Array): void;
  /** Softmax weights of the newest token, `[H, n]`, over everything so far. */
  newest?(layer: number, weights: Float32Array): void;
  /** Hidden states `[m, D]` of the newest m tokens, after the last layer and the final norm. */
  hidden?(rows: Float32Array): void;
}
/** Tokens fed together. */
const BLOCK = 256;

/**
 * Feeds tokens through a new cache, nothing evicted, and calls the observers block by block: the input of calibrations.
 * @param ids the text to calibrate on
 */
export async function watchLayers(
  { decoder, config }: Pick<HostModel, 'decoder' | 'config'>,
  ids: readonly number[],
  { queries, keys, newest, hidden }: LayerWatch,
): Promise<void> {
  const ledger = new Ledger(),
    caches = Array.from({ length: config.layers }, () => new LayerCache(config.kvHeads, config.headDim, ledger));
  try {
    for (let from = 0; from < ids.length; from += BLOCK) {
      const part = ids.slice(from, from + BLOCK),
        positions = Uint32Array.from(part, (_, i) => from + i);
      let x = decoder.embed(part);
      for (const [l, cache] of caches.entries()) {
        const { q, k, v } = await decoder.project(l, x, positions, ids.length);
        queries?.(l, q, decoder.angles(l, positions, ids.length));
        keys?.(l, k);
        cache.append(k, v, positions);
        newest?.(
          l,
          lastAttention({
            ...{ queries: q, queryPositions: positions, cache, engine: decoder.rowEngine },
            ...layerAttention(config, l),
          }),
        );
        x = await decoder.finish(
          l,
          x,
          await decoder.attend({ q, queryPositions: positions, cache, ...layerAttention(config, l) }),
        );
      }
      hidden?.(decoder.hiddenNorm(x));
    }
  } finally {
    for (const cache of caches) cache.destroy();
  }
}
