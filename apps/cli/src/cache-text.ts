import { tokenBytes } from '@kv/engine';
import type { CacheForm, Model, ModelConfig } from '@kv/models';

/** Describes how a cache is stored: `cache q8, 12,600 bytes a token`. */
export const cacheText = (form: CacheForm, config: Pick<ModelConfig, 'layers' | 'kvHeads' | 'headDim'>): string =>
  `cache ${form}, ${tokenBytes(form, config).toLocaleString('en')} bytes a token`;

/** Returns the line that names what runs a model, and how the caches of a run are stored. */
export const engineText = (
  { engine, cacheForm, config }: Pick<Model, 'engine' | 'cacheForm' | 'config'>,
  form: CacheForm = cacheForm,
): string => `engine: ${engine}; ${cacheText(form, config)}\n`;
