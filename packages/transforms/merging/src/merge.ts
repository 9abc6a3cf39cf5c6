import { checkNumber, dotWith, keys, values } from '@kv/core';
import { onCompact } from '@kv/core/old';
import type { Hooked } from '@kv/core';
import { foldInto, nearestKept } from './kernels.ts';

/**
 * Merging: the value of every evicted slot is folded into the kept slot whose key is nearest by cosine, with weight
 * max(cosine, 0) · |v_e| / (|v_e| + |v_t|); keys stay.
 *
 * @remarks kvpress' MergingPress, after Bolya et al. 2022 (ToMe, arXiv:2210.09461) and Wan et al. 2024 (D2O,
 * arXiv:2406.13035). Runs once what stays is
 * decided, on what any selector kept. O(G n · kept · d).
 * @throws KvError if `threshold` is not a cosine.
 */
export function merge({
  threshold = 0,
}: {
  /** Cosine below which nothing is folded. @defaultValue 0 */ readonly threshold?: number;
} = {}): Hooked<'merge'> {
  checkNumber('merge', 'threshold', threshold, 'a cosine from -1 to 1', (x) => x >= -1 && x <= 1);
  return onCompact({ name: 'merge', options: { threshold } }, [keys, values], ({ ops, keys: k, values: v, kept }) => {
    const length = ops.norm(k),
      unit = ops.scale(k, ops.div(1, ops.max(length, 1e-12))),
      stays = ops.mark(kept, length);
    const into = ops.kernel(nearestKept, { x: unit, stays }),
      size = ops.norm(v);
    const cosine = ops.max(0, ops.kernel(dotWith, { x: unit, index: into }));
    const w = ops.mul(
      ops.mul(cosine, ops.atLeast(cosine, threshold)),
      ops.div(size, ops.max(ops.add(size, ops.take(size, into)), 1e-30)),
    );
    // what was kept, or stands beyond the row, moves nowhere; without a kept slot nothing does
    const moves = ops.mul(ops.sub(ops.lastSlots(length, length.shape[1]), stays), ops.reduce('max', stays, 'slots'));
    return { values: ops.kernel(foldInto, { values: v, into, w: ops.where(moves, w, 0) }) };
  });
}
