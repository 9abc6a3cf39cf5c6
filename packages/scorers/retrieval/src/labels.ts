import { checkNumber, isPositiveInteger, keys, queries } from '@kv/core';
import { scorer } from '@kv/core/old';
import type { Scorer } from '@kv/core';

export interface LabelsOptions {
  /** Channels that stand for a whole key. @defaultValue 16 */
  readonly channels?: number;
  /** Last queries by which channels are ranked. @defaultValue 32 */
  readonly window?: number;
}

/**
 * Double Sparsity's label score: q·k over the few channels that carry most of it, those of the largest mean |q_c| times
 * mean |k_c| of the head.
 *
 * @remarks Yang et al. 2024, arXiv:2408.07092. Scores on query rows `[H, n]`. The authors rank channels on calibration
 * texts by the mean |q_c k_c|;
 * here the sequence's own keys and last queries rank them. Reads `channels` of the d numbers of a key. O(H n d) here,
 * since channels are ranked anew.
 * @throws KvError if an option is not a positive whole number.
 */
export function labels({ channels = 16, window = 32 }: LabelsOptions = {}): Scorer<'labels'> {
  checkNumber('labels', 'channels', channels, 'a positive whole number of channels', isPositiveInteger);
  checkNumber('labels', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  return scorer(
    { name: 'labels', options: { channels, window } },
    [queries(window), keys],
    ({ ops, queries: q, keys: k }) => {
      const [H = 1, w = 1, d = 1] = q.shape,
        mean = (x: typeof q): typeof q => ops.reduce('mean', ops.map('abs', x), 'slots');
      const heavy = ops.less(ops.rank(ops.reshape(ops.mul(mean(q), mean(k)), [H, d]), 'row'), channels);
      const newest = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(w - 1), shape: [1, 1] })), [H, d]);
      return ops.div(ops.dot(ops.mul(newest, heavy), k), Math.sqrt(Math.min(channels, d)));
    },
  );
}
