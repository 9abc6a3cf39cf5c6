import type { DynamicCache } from '@huggingface/transformers';

/** The current state of a sequence. */
export interface Stats {
  readonly policy: string;
  /** Positions that the last event kept (all positions fed, if there was none), `[layer][kvHead]`, ascending. */
  readonly kept: readonly (readonly (readonly number[])[])[];
  /** Positions in the cache now, likewise. */
  readonly positions: readonly (readonly (readonly number[])[])[];
  /** Tokens fed, evicted ones included. */
  readonly length: number;
  /** Slots per head. */
  readonly slots: number;
  /** Bytes of its keys and values. */
  readonly bytes: number;
  readonly events: number;
  readonly notes: readonly string[];
}
/** A model that generates as before, with a cache that a policy keeps within its budget. */
export type PolicyModel<M> = M & {
  /** Returns the state of a sequence. @param cache its cache. @defaultValue that of the last call */
  stats(cache?: DynamicCache): Stats;
  /**
   * Runs an event now; if it throws, nothing has changed. @param slots to keep. @defaultValue as many as at the last
   * event
   * @throws KvError for a cache of another model; and whatever a piece throws
   */
  evict(cache: DynamicCache, slots?: number): Promise<void>;
  /** Returns an independent copy of a cache. @throws KvError for a cache of another model */
  fork(cache: DynamicCache): DynamicCache;
};
