import { checkNumber, isCount, isPositiveInteger, keys, values } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Tensor, Weigher } from '@kv/core';
import { lagRank, lagSpread } from './lag.ts';

export interface LagkvOptions {
  /** First slots, which score 1. @defaultValue 4 */
  readonly sinks?: number;
  /** Slots in a partition. @defaultValue 128 */
  readonly lag?: number;
  /** Compare scores across partitions instead of ranks within them. @defaultValue false */
  readonly cross?: boolean;
}

/**
 * LagKV: how unevenly a slot's key and value channels lie between the bounds of the next partition of slots, as a
 * softmax within its
 * own partition and, unless `cross`, as the rank in it.
 *
 * @remarks Liang et al. 2025, arXiv:2504.04704. Weights in 0 .. 1 on KV rows `[G, n]`: sinks, the last whole partition
 * and the rest after it score 1; a row of fewer than `sinks + 2 lag` slots scores by recency. Reads no attention, and
 * keys and values once. O(G n (d + lag)).
 * @throws KvError if `sinks` is not a whole number or `lag` not a positive one.
 */
export function lagkv({ sinks = 4, lag = 128, cross = false }: LagkvOptions = {}): Weigher<'lagkv'> {
  checkNumber('lagkv', 'sinks', sinks, 'a whole number of slots', isCount);
  checkNumber('lagkv', 'lag', lag, 'a positive whole number of slots', isPositiveInteger);
  return weigher(
    { name: 'lagkv', options: { sinks, lag, cross: cross || undefined } },
    [keys, values],
    ({ ops, at: { slots: n }, keys: k, values: v }) => {
      // longer ones say the same of n slots
      const sizes = { lag: Math.min(lag, Math.max(1, n)), sinks: Math.min(sinks, n) };
      const score = (x: Tensor): Tensor => ops.softmax(ops.kernel(lagSpread, { x }, sizes)); // a row a partition
      return ops.kernel(
        lagRank,
        { parts: ops.div(ops.add(score(k), score(v)), 2), like: ops.lastSlots(k, 0) },
        { ...sizes, ranked: cross ? 0 : 1 },
      );
    },
  );
}
