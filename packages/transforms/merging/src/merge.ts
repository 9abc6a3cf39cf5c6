import { keys, number, onCompact, values } from '@kv/core';
import { dotWith } from '@kv/core/shared';
import { foldInto, nearestKept } from './kernels.ts';

/**
 * Merging: folds the value of every evicted slot into the kept slot whose key is nearest by cosine, with weight
 * max(cosine, 0) · |v_e| / (|v_e| + |v_t|); keys stay.
 *
 * @remarks kvpress' MergingPress, after Bolya et al. 2022 (ToMe, arXiv:2210.09461) and Wan et al. 2024 (D2O,
 * arXiv:2406.13035). Runs after selection, for any selector. O(G n · kept · d).
 */
export const merge = onCompact(
  'merge',
  {
    source: 'kvpress',
    says: 'Folds the values of evicted slots into kept ones with similar keys.',
    options: {
      threshold: number(0, 'Cosine below which nothing is folded.', {
        least: -1,
        most: 1,
        want: 'a cosine from -1 to 1',
      }),
    },
    needs: [keys, values],
  },
  ({ ops, keys: k, values: v, kept }, { threshold }) => {
    const length = ops.norm(k);
    const unit = ops.scale(k, ops.div(1, ops.max(length, 1e-12)));
    const stays = ops.mark(kept, length);
    const into = ops.kernel(nearestKept, { x: unit, stays });
    const size = ops.norm(v);
    const cosine = ops.max(0, ops.kernel(dotWith, { x: unit, index: into }));
    const share = ops.div(size, ops.max(ops.add(size, ops.take(size, into)), 1e-30));
    const w = ops.mul(ops.mul(cosine, ops.atLeast(cosine, threshold)), share);
    // kept slots, and those beyond the row's end, do not move; without a kept slot none does
    const moves = ops.mul(ops.sub(ops.lastSlots(length, length.shape[1]), stays), ops.reduce('max', stays, 'slots'));
    return { values: ops.kernel(foldInto, { values: v, into, w: ops.where(moves, w, 0) }) };
  },
);
