import { attentionWindow, count, odd, oneOf, weightScorer } from '@kv/core';

/**
 * SnapKV: mean attention that a slot receives from the last w queries, pooled along the slots before the window.
 *
 * @remarks Li et al. 2024, arXiv:2404.14469. Weights on query rows `[H, n]`; pooled per query head, so any head
 * reduction comes after. O(H w n d). The slots of the window keep their raw column means, and are forced.
 */
export const snapkv = weightScorer(
  'snapkv',
  {
    source: 'Li et al. 2024, arXiv:2404.14469',
    says: 'Pooled attention of the last queries.',
    options: {
      window: count(64, 'queries', 'Observation window: the last queries, whose own tokens always stay.'),
      kernel: odd(5, 'Width of the pooling before the window; 1 pools nothing.'),
      pooling: oneOf(['mean', 'max'], 'mean', 'What stands for a neighbourhood.'),
    },
    needs: ({ window }) => [attentionWindow(window)],
    ends: ({ window: last }) => ({ last }),
  },
  ({ ops, attention }, { window, kernel, pooling }) => ({
    scores: ops.pool(attention, { kernel, kind: pooling, except: window }),
    forced: ops.lastSlots(attention, window),
  }),
);
