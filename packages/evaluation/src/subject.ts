import type { Model } from '@kv/models';
import type { RegistryOf } from './policies.ts';

/** The model under test: a loaded one, or what its files say without weights. Its fingerprint names the weights. */
export type Subject = Pick<Model, 'name' | 'engine' | 'fingerprint' | 'config' | 'tokenizer' | 'sidecar'>;

/** What runs jobs. */
export interface Bench {
  readonly model: Model;
  /** @defaultValue the catalogue of `@kv/policies` */
  readonly names?: RegistryOf | undefined;
}
