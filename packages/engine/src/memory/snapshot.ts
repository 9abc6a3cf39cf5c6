import type { StateSpec } from '@kv/core';
import type { Records, CacheRows, EarlierRounding } from '../cache/cache-rows.ts';
import type { StorageForm } from '../cache/form.ts';

/** Rows of running sums: one per query head, or one per KV head, which sums those of its query heads. */
export type SumRows = 'query' | 'kv';

/** Slots of a cache, head after head: rows of keys and values, positions and, once rebased, rotations `[slots]`. */
export interface Slots {
  readonly form: StorageForm;
  readonly keys: CacheRows;
  readonly values: CacheRows;
  /** Where slots have levels of their own. */
  readonly records?: Records | undefined;
  readonly positions: Uint32Array;
  readonly rotations?: Uint32Array | undefined;
  /** What slots add to their logits, where some do. */
  readonly biases?: Float32Array | undefined;
  /** What was rounded off before they were stored as they are; undefined where the writer did not count it. */
  readonly rounded?: EarlierRounding | undefined;
}

/** The numbers of a ring: queries `[w, H, d]`, positions `[w]`, rotations `[w, H]` once rebased. */
export interface SavedRing {
  readonly seen: number;
  readonly queries: Float32Array;
  readonly positions: Uint32Array;
  readonly rotations: Uint32Array | undefined;
}

/** A state as it is saved: `[rows, columns]`. */
export interface StoredState {
  readonly id: string;
  readonly spec: StateSpec;
  readonly columns: number;
  readonly data: Float32Array;
}

/** One layer's numbers, on the host. */
export interface LayerSnapshot {
  /** Slots in use, `[kvHead]`. */
  readonly lengths: readonly number[];
  readonly aligned: boolean;
  readonly slots: Slots;
  readonly ring?: (SavedRing & { readonly window: number }) | undefined;
  /** Column sums, `[H, n]` of the longest head's slots, or `[G, n]`. */
  readonly accumulated?: { readonly rows: SumRows; readonly sums: Float32Array } | undefined;
  /** `[H, n]` */
  readonly block?: Float32Array | undefined;
  readonly states: readonly StoredState[];
}

/** The contents of a sequence's caches, and of what is recorded with them. */
export interface CacheSnapshot {
  /** Layers that keep slots. */
  readonly layers: readonly LayerSnapshot[];
  /** The states of the layers that keep none, where there are such layers. */
  readonly carried?: readonly Float32Array[];
  /** States of rows `model`. */
  readonly states: readonly StoredState[];
}

/** All that a memory holds, on the host. */
export interface Snapshot extends CacheSnapshot {
  readonly ids: readonly number[];
  readonly promptLength: number;
  readonly rotaryLength: number;
  readonly decoded: number;
  readonly mostSlots: number;
  /** How far new tokens' rotations lie below their positions. */
  readonly shift: number;
  /** How many of the first tokens are as a prompt without a policy leaves them. */
  readonly unaltered: number;
}
