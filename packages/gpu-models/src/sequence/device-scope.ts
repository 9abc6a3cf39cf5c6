import { KvError } from '@kv/core';
import type { Tensor } from '@kv/core';
import type { OpenScope } from '@kv/gpu';
import type { Ledger } from '@kv/engine';

/**
 * Where what a sequence keeps lies: a scope as long as its life, and the count of its bytes, made as the host makes it.
 */
export interface Home {
  readonly scope: OpenScope;
  readonly ledger: Ledger;
}

/**
 * What an event keeps of one layer, on the device: ascending slots, u32 `[1 or G, n]`, of which `counts [1 or G]` are
 * valid.
 */
export interface Selection {
  readonly kept: Tensor;
  readonly counts: Tensor;
}

/**
 * The selection as `rows` rows follow it: those of a head share its row, one row alone follows the first head. @throws
 * KvError for more rows than heads.
 */
export function forRows({ kept, counts }: Selection, rows: number): Selection {
  const [own = 1, slots = 0] = kept.shape;
  if (rows % own === 0) return { kept, counts };
  if (rows === 1) return { kept: { ...kept, shape: [1, slots] }, counts: { ...counts, shape: [1] } };
  throw new KvError('gpu', `expected kept slots of one row or ${rows}, got ${own} rows`);
}
