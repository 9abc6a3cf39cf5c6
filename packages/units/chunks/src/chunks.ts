import { count, flag, positions, unit } from '@kv/core';
import type { StepContext, Tensor, Units } from '@kv/core';

export const size = count(10, 'positions', 'Positions in a chunk.');

/** Returns the chunk of every slot, cut by position. */
export function cutChunks({ ops, at }: StepContext, p: Tensor, positionsEach: number): Units {
  const byPosition = new Uint32Array(at.length);
  for (let i = 0; i < byPosition.length; i++) byPosition[i] = Math.floor(i / positionsEach);
  const of = ops.take(ops.from({ data: byPosition, shape: [1, at.length] }), p);
  return { of, count: Math.ceil(at.length / positionsEach), byPosition };
}

/**
 * ChunkKV: chunks of `size` positions, each scored by the mean of its slots' scores, summed over the KV heads of the
 * layer.
 *
 * @remarks Liu et al. 2025, arXiv:2502.00299, with kvpress' mean, so that a shorter last chunk competes fairly. Scores
 * `[rows, n]` to unit scores `[1 | rows, ⌈length / size⌉]`. Chunks are cut by position, also where some of their slots
 * were evicted. O(rows n).
 */
export const chunks = unit(
  'chunks',
  {
    source: 'Liu et al. 2025, arXiv:2502.00299',
    says: 'Chunks of neighbouring positions that stay or go together.',
    options: {
      size,
      shared: flag(
        true,
        'One score a chunk for the whole layer, so that its heads keep the same chunks; else one for each row.',
      ),
    },
    needs: [positions],
    loop: ({ size: positions, shared }) => (shared ? undefined : { unit: positions }),
  },
  (ctx, { size: each, shared }) => {
    const { ops, at, scores, positions: p } = ctx;
    const units = cutChunks(ctx, p, each);
    const mean = ops.groupSlots('mean', scores, units.of, units.count); // [rows, chunks]
    return { units, scores: shared ? ops.reduce('sum', ops.reduceRows('mean', mean, at.kvHeads), 'rows') : mean };
  },
);
