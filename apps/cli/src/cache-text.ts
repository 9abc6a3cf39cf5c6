import { slotLayers } from '@kv/checkpoints';
import { stateBytes, tokenBytes } from '@kv/engine';
import type { CacheForm, ModelConfig, Sequence } from '@kv/models';

/** Describes how a cache is stored: `cache q8, 12,600 bytes a token`, and the bytes of states, if layers carry them. */
export const cacheText = (form: CacheForm, config: Pick<ModelConfig, 'mixers' | 'kvHeads' | 'headDim'>): string =>
  `cache ${form}, ${tokenBytes(form, config).toLocaleString('en')} bytes a token${statesText(config)}`;

/** Returns the bytes of the states that layers without slots carry, for a text that counts those of slots. */
function statesText(config: Pick<ModelConfig, 'mixers'>): string {
  const bytes = stateBytes(config);
  return bytes === 0 ? '' : ` and ${bytes.toLocaleString('en')} of states`;
}

/** Returns a line on the layers of which a table of layers with slots says nothing, else nothing. */
export function layersText({ mixers }: Pick<ModelConfig, 'mixers'>): string {
  const slots = slotLayers({ mixers }).length;
  return slots === mixers.length
    ? ''
    : `The layers counted here are the ${slots} of ${mixers.length} that keep slots; the others carry states of ${stateBytes({ mixers }).toLocaleString('en')} bytes, which nothing evicts.\n`;
}

/** Returns a line on a saved cache that is not stored as the model's caches are, else nothing. */
export function savedText({ model, memory }: Sequence): string {
  const { form } = memory.cache;
  return form === model.cacheForm ? '' : `loaded: ${cacheText(form, model.config)}\n`;
}
