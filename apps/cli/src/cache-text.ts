import { tokenBytes } from '@kv/engine';
import type { CacheForm, ModelConfig, Sequence } from '@kv/models';

/** Describes how a cache is stored: `cache q8, 12,600 bytes a token`. */
export const cacheText = (form: CacheForm, config: Pick<ModelConfig, 'mixers' | 'kvHeads' | 'headDim'>): string =>
  `cache ${form}, ${tokenBytes(form, config).toLocaleString('en')} bytes a token`;

/** Returns a line on a saved cache that is not stored as the model's caches are, else nothing. */
export function savedText({ model, memory }: Sequence): string {
  const { form } = memory.cache;
  return form === model.cacheForm ? '' : `loaded: ${cacheText(form, model.config)}\n`;
}
