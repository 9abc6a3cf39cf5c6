import type { ModelConfig } from '@kv/checkpoints';
import { tokenBytes, type CacheForm } from '../cache/form.ts';
import { keptLayers, slotModel } from '../decoder/keeps.ts';

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

/**
 * Returns the most that a model's layers hold while a block passes them: each holds all of it until its event, or until
 * slots that its window has left are freed. That is after the last layer that reads its slots; where all layers have slots
 * of their own, with events of `layersTogether`, and without events at the end.
 *
 * @param whole what each layer that keeps slots holds until then, and `left` what it holds afterwards
 * @param slots of a KV head before its event
 * @param form of the caches
 * @param events whether events follow the layers @defaultValue true
 */
export function peakOfEvents(
  config: ModelConfig,
  { whole, left }: { readonly whole: readonly number[]; readonly left: readonly number[] },
  slots: number,
  form: CacheForm,
  events = true,
): number {
  const { slots: own, readers } = keptLayers(config),
    alone = readers.every(({ length }) => length === 1),
    together = !alone ? 1 : events ? layersTogether(slotModel(config), slots, form) : own.length,
    ends = own.map((_, l) => readers[Math.min(own.length, together * (Math.floor(l / together) + 1)) - 1].at(-1)!);
  let held = 0,
    most = 0;
  for (let layer = 0; layer < config.layers; layer++) {
    own.forEach((at, l) => {
      if (at === layer) held += whole[l];
    });
    most = Math.max(most, held);
    ends.forEach((end, l) => {
      if (end === layer) held += left[l] - whole[l];
    });
  }
  return Math.max(most, held);
}
