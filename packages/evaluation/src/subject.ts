import type { Model } from '@kv/models';
import type { RegistryOf } from './policies.ts';

/**
 * The model under test: a loaded one, or the information in its files without weights. Its fingerprint identifies the
 * weights.
 */
export type Subject = Pick<Model, 'name' | 'engine' | 'fingerprint' | 'config' | 'tokenizer' | 'sidecar'>;

/** A model with everything needed to run jobs. */
export interface Bench {
  readonly model: Model;
  /** Names that policy texts may use. @defaultValue the catalogue of `@kv/policies` */
  readonly names?: RegistryOf | undefined;
}
