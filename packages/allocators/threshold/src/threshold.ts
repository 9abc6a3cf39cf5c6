import { number, positions, scoreAllocator, whole } from '@kv/core';

/**
 * A threshold instead of a size: every slot whose score reaches it stays, and so does a sliding window.
 *
 * @remarks kvpress' DMSPress, after the inference of DMS (arXiv:2506.05345), for any scorer and selector: the window is
 * forced, and a head's budget is the number of slots that are forced or reach the threshold. Replaces any requested
 * budgets. Scores on KV rows, the mean of a group. Budgets `[G, 1]`. O(H n).
 */
export const threshold = scoreAllocator(
  'threshold',
  {
    source: 'DMS, arXiv:2506.05345',
    says: 'Every slot whose score reaches a bar stays, and so does a sliding window.',
    options: {
      at: number(0, 'A slot with this score or a higher one stays.', { want: 'a finite number' }),
      window: whole(128, 'positions', 'Last positions that stay whatever their scores.'),
    },
    needs: [positions],
    ends: ({ window: last }) => ({ last }),
    choosesBudget: true,
  },
  ({ ops, at, positions: p, scores, forced, banned }, { at: bar, window }) => {
    const recent = ops.broadcast(ops.atLeast(p, at.length - window), scores.shape[0]);
    const reaches = ops.mul(ops.atLeast(scores, bar), ops.not(banned));
    return { budgets: ops.sum(ops.max(ops.max(recent, forced), reaches)), forced: recent };
  },
);
