import { slotHeads } from '@kv/checkpoints';
import { lastAttention } from '../attention/attention.ts';
import { layerAttention } from '../attention/layer-attention.ts';
import { LayerCache } from '../cache/layer-cache.ts';
import { joinHeads, readersOf } from '../decoder/joined-heads.ts';
import { keptLayers } from '../decoder/keeps.ts';
import type { Angles } from '../decoder/program.ts';
import { Ledger } from '../ledger.ts';
import { LayerStates } from './layer-states.ts';
import type { HostModel } from './runtime.ts';

/** Callbacks that observe a pass. Layers are those that keep slots, counted from 0. */
export interface LayerWatch {
  /**
   * Queries `[H, m, d]` of a layer's newest m tokens, of all layers that read its slots, with the angles that rotated
   * them; after their keys.
   */
  queries?(layer: number, q: Float32Array, angles: Angles): void;
  /** Keys `[G, m, d]` of a layer's newest m tokens, rotated. */
  keys?(layer: number, k: Float32Array): void;
  /** Softmax weights of the newest token, `[H, n]`, over everything so far. */
  newest?(layer: number, weights: Float32Array): void;
  /** What a layer's projections read of the newest m tokens, after their norm, `[m, D]`; before their keys. */
  input?(layer: number, rows: Float32Array): void | Promise<void>;
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
  { queries, keys, newest, input, hidden }: LayerWatch,
): Promise<void> {
  const ledger = new Ledger(),
    kept = keptLayers(config),
    { all, states: sizes } = kept,
    caches = slotHeads(config).map(({ kvHeads, headDim }) => new LayerCache(kvHeads, headDim, ledger)),
    states = new LayerStates(sizes, 0, ledger);
  try {
    for (let from = 0; from < ids.length; from += BLOCK) {
      const part = ids.slice(from, from + BLOCK),
        positions = Uint32Array.from(part, (_, i) => from + i);
      /** Queries of the layers that read the same slots, by the layer that keeps them. */
      const waiting = new Map<number, Float32Array[]>();
      let x = decoder.embed(part);
      const inputs = await decoder.layerInputs(part, x);
      for (const [layer, { kind, at: l, reader }] of all.entries()) {
        if (kind === 'state') {
          x = await decoder.finish(layer, x, await decoder.mix(layer, x, states.all[l]), undefined, inputs);
          continue;
        }
        if (kind === 'slots') await input?.(l, decoder.readInput(layer, x));
        const cache = caches[l],
          { q, k, v, gate } = await decoder.project(layer, x, positions, ids.length);
        if (kind === 'slots') {
          keys?.(l, k);
          cache.append(k, v, positions);
        }
        const some = [...(waiting.get(l) ?? []), q];
        waiting.set(l, some);
        if (reader?.last !== false) {
          const readers = readersOf(kept, l),
            all = readers ? joinHeads(some, readers, 1, part.length * cache.headDim) : q;
          queries?.(l, all, decoder.angles(layer, positions, ids.length));
          newest?.(
            l,
            lastAttention({
              ...{ queries: all, queryPositions: positions, cache, engine: decoder.rowEngine },
              ...layerAttention(decoder, layer),
            }),
          );
        }
        x = await decoder.finish(
          layer,
          x,
          await decoder.attend({ q, queryPositions: positions, cache, ...layerAttention(decoder, layer) }),
          gate,
          inputs,
        );
      }
      hidden?.(decoder.hiddenNorm(x));
    }
  } finally {
    for (const cache of caches) cache.destroy();
    states.destroy();
  }
}
