import { attentionWindow, count, weightScorer, whole } from '@kv/core';

/**
 * Scissorhands: in how many of the last w steps a slot received more than the mean weight, 1 / (slots that the query
 * saw).
 *
 * @remarks Liu et al. 2023, arXiv:2305.17118 (persistence of importance). Weights in 0 .. 1 on query rows `[H, n]`. The
 * paper's history is 400 steps; its larger budgets in later layers are left to an allocator. O(w H n d).
 */
export const scissorhands = weightScorer(
  'scissorhands',
  {
    source: 'Liu et al. 2023, arXiv:2305.17118',
    says: 'How many of the last queries gave a slot more than their mean weight.',
    options: {
      window: count(64, 'queries', 'Past queries that vote.'),
      recent: whole(10, 'slots', 'Last slots that always stay.'),
    },
    needs: ({ window }) => [attentionWindow(window, 'votes')],
    ends: ({ recent: last }) => ({ last }),
  },
  ({ ops, attention }, { recent }) => ({ scores: attention, forced: ops.lastSlots(attention, recent) }),
);
