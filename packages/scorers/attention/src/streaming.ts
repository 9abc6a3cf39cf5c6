import { positions, weightScorer, whole } from '@kv/core';

/**
 * StreamingLLM: keeps the first positions (sinks) and the most recent of the others.
 *
 * @remarks Xiao et al. 2023, arXiv:2309.17453, with original positions kept. The score is the position itself, so it
 * reads no attention. Weights on KV rows `[G, n]`.
 */
export const streaming = weightScorer(
  'streaming',
  {
    source: 'Xiao et al. 2023, arXiv:2309.17453',
    says: 'Sinks, then the most recent positions.',
    options: { sinks: whole(4, 'positions', 'First positions that always stay.') },
    needs: [positions],
    ends: ({ sinks: first }) => ({ first }),
  },
  ({ ops, positions: p }, { sinks }) => ({ scores: ops.float(p), forced: ops.less(p, sinks) }),
);
