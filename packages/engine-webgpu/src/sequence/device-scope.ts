import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Ledger } from '@kv/engine';

/** A sequence's allocator: a scope with the sequence's lifetime, and its ledger, counted as on the host. */
export interface DeviceScope {
  readonly scope: OpenScope;
  readonly ledger: Ledger;
}

/**
 * Returns the capacity of storage that holds `need` slots and grows: by at least a quarter, up to `most` that the device
 * binds.
 */
export const roomFor = (need: number, capacity: number, most: number): number =>
  Math.max(need, Math.min(most, Math.floor(1.25 * capacity)));

/**
 * What an event keeps of one layer, on the device: ascending slots, u32 `[1 or G, n]`, of which `counts [1 or G]` are
 * valid.
 */
export interface SlotSelection {
  readonly kept: Tensor;
  readonly counts: Tensor;
}

/** What an event keeps of one layer, on the host: ascending slots `[kvHead]`, and the levels that they are given. */
export interface DecidedSlots {
  readonly slots: readonly Uint32Array[];
  readonly levels?: readonly Uint8Array[] | undefined;
}

/**
 * Returns the selection for `rows` rows: rows of a head share its row; a single row uses the first head's.
 * @throws KvError for more rows than heads
 */
export function forRows({ kept, counts }: SlotSelection, rows: number): SlotSelection {
  const [own = 1, slots = 0] = kept.shape;
  if (rows % own === 0) return { kept, counts };
  if (rows === 1) return { kept: { ...kept, shape: [1, slots] }, counts: { ...counts, shape: [1] } };
  throw new KvError('gpu', `expected kept slots of one row or ${rows}, got ${own} rows`);
}
