import { count, keys, queries, scorer } from '@kv/core';
import type { Tensor } from '@kv/core';

/**
 * Double Sparsity's label score: q·k over the few channels that carry most of it, those with the largest mean |q_c|
 * times mean |k_c| of the head.
 *
 * @remarks Yang et al. 2024, arXiv:2408.07092. Scores on query rows `[H, n]`. The authors rank channels on calibration
 * texts by the mean |q_c k_c|; here the sequence's own keys and last queries rank them. Reads `channels` of the d
 * numbers of a key. O(H n d) here, since channels are ranked again at every call.
 */
export const heavyChannelProducts = scorer(
  'heavyChannelProducts',
  {
    source: 'Yang et al. 2024, arXiv:2408.07092',
    says: 'Products of query and key over the few channels that carry most of them.',
    options: {
      channels: count(16, 'channels', 'Channels that stand for a whole key.'),
      window: count(32, 'queries', 'Last queries by which channels are ranked.'),
    },
    needs: ({ window }) => [queries(window), keys],
  },
  ({ ops, queries: q, keys: k }, { channels }) => {
    const [H = 1, w = 1, d = 1] = q.shape;
    const mean = (x: Tensor): Tensor => ops.reduce('mean', ops.map('abs', x), 'slots');
    const heavy = ops.less(ops.rank(ops.reshape(ops.mul(mean(q), mean(k)), [H, d]), 'row'), channels);
    const newest = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(w - 1), shape: [1, 1] })), [H, d]);
    return ops.div(ops.dot(ops.mul(newest, heavy), k), Math.sqrt(Math.min(channels, d)));
  },
);
