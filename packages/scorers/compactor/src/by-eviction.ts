import { transform } from '@kv/core';

/**
 * Multiplies scores by the share of slots to evict, 1 - B / n: Compactor trusts leverage more, the fewer slots are
 * kept.
 *
 * @remarks kvpress' CompactorPress, blending = compression ratio. Keeps the order of every row.
 */
export const byEviction = transform(
  'byEviction',
  {
    source: 'Chari and Van Durme 2025, arXiv:2507.08143',
    says: 'Scores times the share of slots that are to go.',
  },
  ({ ops, at, scores }) => ops.mul(scores, Math.max(0, 1 - at.budget / Math.max(1, at.slots))),
);
