import { checkNumber, isPositiveInteger, positions } from '@kv/core';
import { unit } from '@kv/core/old';
import type { Unit } from '@kv/core';

export interface ChunksOptions {
  /** Positions in a chunk. @defaultValue 10 */
  readonly size?: number;
  /**
   * One score a chunk for the whole layer, so that its heads keep the same chunks; else one for each row of scores.
   * @defaultValue true
   */
  readonly shared?: boolean;
}

/**
 * ChunkKV: chunks of `size` positions, each scored by the mean of its slots' scores, summed over the KV heads of the
 * layer.
 *
 * @remarks Liu et al. 2025, arXiv:2502.00299, with kvpress' mean, so that a ragged last chunk competes fairly. Scores
 * `[rows, n]` to unit scores `[1 | rows, ⌈length / size⌉]`. A chunk is cut by position, also where slots of it were
 * evicted. O(rows n).
 * @throws KvError if `size` is not a positive whole number.
 */
export function chunks({ size = 10, shared = true }: ChunksOptions = {}): Unit<'chunks'> {
  checkNumber('chunks', 'size', size, 'a positive whole number of positions', isPositiveInteger);
  return unit(
    { name: 'chunks', options: { size, shared: shared ? undefined : false } },
    [positions],
    ({ ops, at, scores, positions: p }) => {
      const count = Math.ceil(at.length / size);
      const byPosition = Uint32Array.from({ length: at.length }, (_, i) => Math.floor(i / size)),
        of = ops.take(ops.from({ data: byPosition, shape: [1, at.length] }), p);
      const mean = ops.groupSlots('mean', scores, of, count);
      return {
        units: { of, count, byPosition },
        scores: shared
          ? ops.reduce('sum', scores.shape[0] > at.kvHeads ? ops.groupRows('mean', mean, at.kvHeads) : mean, 'rows')
          : mean,
      };
    },
  );
}
