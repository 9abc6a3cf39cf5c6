import type { Slots } from '../cache/storage.ts';
import type { SavedRing } from './query-ring.ts';
import type { StoredState } from './store.ts';
import type { SumRows } from './watch.ts';

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

/** All that a sequence remembers beside its tokens, on the host. */
export interface Snapshot {
  readonly layers: readonly LayerSnapshot[];
  /** States of rows `model`. */
  readonly states: readonly StoredState[];
}
