import type { ModelConfig } from '@kv/checkpoints';
import { tokenBytes, type CacheForm } from '../cache/form.ts';

/** The most bytes of caches that may wait for their events, and the largest share of a model's layers. */
const mostBytes = 8 * 2 ** 20,
  mostShare = 1 / 6;

/**
 * Returns how many layers a block of tokens passes before their events run together, so that code and tables that a
 * layer's products pushed out of the processor's caches are fetched once for all of them. 1 where caches are large.
 *
 * @param slots of a KV head before its event
 * @param form of the caches
 */
export const layersTogether = (
  { layers, mixers }: Pick<ModelConfig, 'layers' | 'mixers'>,
  slots: number,
  form: CacheForm,
): number =>
  Math.max(
    1,
    Math.min(
      Math.floor(layers * mostShare),
      Math.floor(mostBytes / Math.max(1, (slots * tokenBytes(form, { mixers })) / layers)),
    ),
  );
