import { count, flag, keys, values, weightScorer, whole } from '@kv/core';
import type { Tensor } from '@kv/core';
import { lagScores, lagSpread } from './lag.ts';

/**
 * LagKV: how unevenly a slot's key and value channels lie between the bounds of the next partition of slots, as a
 * softmax within its own partition and, unless `cross`, as the rank in it.
 *
 * @remarks Liang et al. 2025, arXiv:2504.04704. Weights in 0 .. 1 on KV rows `[G, n]`: sinks, the last whole partition
 * and the rest after it score 1; a row of fewer than `sinks + 2 lag` slots scores by recency. Reads no attention, and
 * keys and values once. O(G n (d + lag)).
 */
export const lagkv = weightScorer(
  'lagkv',
  {
    source: 'Liang et al. 2025, arXiv:2504.04704',
    says: 'Spread of keys and values between the bounds of the next partition.',
    options: {
      sinks: whole(4, 'slots', 'First slots, which score 1.'),
      lag: count(128, 'slots', 'Slots in a partition.'),
      cross: flag(false, 'Compare scores across partitions instead of ranks within them.'),
    },
    needs: [keys, values],
  },
  ({ ops, at: { slots: n }, keys: k, values: v }, { sinks, lag, cross }) => {
    // longer partitions give the same for n slots
    const sizes = { lag: Math.min(lag, Math.max(1, n)), sinks: Math.min(sinks, n) };
    const score = (x: Tensor): Tensor => ops.softmax(ops.kernel(lagSpread, { x }, sizes)); // a row a partition
    const both = ops.add(score(k), score(v));
    const parts = cross ? ops.div(both, 2) : ops.rank(both, 'row'); // ties to the lower slot
    return ops.kernel(lagScores, { parts, like: ops.lastSlots(k, 0) }, { ...sizes, ranked: Number(!cross) });
  },
);
