import { checkNumber, isCount, isPositiveInteger, keys, values, weigher } from '@kv/core';
import type { Tensor, Weigher } from '@kv/core';
import { lagRange, lagRank, lagSpread } from './lag.ts';

export interface LagkvOptions {
  /** First slots, which score 1. @defaultValue 4 */
  readonly sinks?: number;
  /** Slots in a partition. @defaultValue 128 */
  readonly lag?: number;
  /** Compare scores across partitions instead of ranks within them. @defaultValue false */
  readonly cross?: boolean;
}

/**
 * LagKV: how unevenly a slot's key and value channels lie between the bounds of the next partition of slots, as a softmax within its
 * own partition and, unless `cross`, as the rank in it.
 *
 * @remarks Liang et al. 2025, arXiv:2504.04704. Weights in 0 .. 1 on KV rows `[G, n]`: sinks, the last whole partition
 * and the rest after it score 1; a row of fewer than `sinks + 2 lag` slots scores by recency. Reads no attention. O(G n (d + lag)).
 * @throws KvError if `sinks` is not a whole number or `lag` not a positive one.
 */
export function lagkv({ sinks = 4, lag = 128, cross = false }: LagkvOptions = {}): Weigher<'lagkv'> {
  checkNumber('lagkv', 'sinks', sinks, 'a whole number of slots', isCount);
  checkNumber('lagkv', 'lag', lag, 'a positive whole number of slots', isPositiveInteger);
  return weigher({ name: 'lagkv', options: { sinks, lag, cross: cross || undefined } }, [keys, values], ({ ops, at, keys: k, values: v }) => {
    const part = (i: number): number => (i < sinks ? 0 : 1 + Math.floor((i - sinks) / lag)), count = part(at.slots) + 1;
    const parts = ops.from({ data: Uint32Array.from({ length: at.slots }, (_, i) => part(i)), shape: [1, at.slots] });
    const score = (x: Tensor): Tensor => {
      const spread = ops.kernel(lagSpread, { x, range: ops.kernel(lagRange, { x }, { lag, sinks }) }, { lag, sinks });
      const e = ops.exp(ops.sub(spread, ops.take(ops.groupSlots('max', spread, parts, count), parts)));
      return ops.div(e, ops.take(ops.groupSlots('sum', e, parts, count), parts));
    };
    return ops.kernel(lagRank, { x: ops.div(ops.add(score(k), score(v)), 2) }, { lag, sinks, ranked: cross ? 0 : 1 });
  });
}
