import type { CacheView, SlotMasker } from '@kv/engine';
import { countBelow } from '@kv/core/shared';

/**
 * What some queries see of one KV head: its slots [0, end), except those that a mask `[maskRows, m, end]` of 0 and
 * -Infinity hides.
 */
export interface HeadView {
  readonly end: number;
  /** 1, or the query heads of the KV head. */
  readonly maskRows: number;
  /** Absent where all of [0, end) is visible. */
  readonly mask?: Float32Array;
}

/** Returns the view of queries at `queryPositions` on KV head g, or undefined if one of them sees nothing. */
export function headView(
  cache: CacheView,
  g: number,
  group: number,
  queryPositions: Uint32Array,
  hide: SlotMasker | undefined,
): HeadView | undefined {
  const first = g * cache.capacity,
    positions = cache.positions.subarray(first, first + cache.lengths[g]),
    m = queryPositions.length;
  const seen = queryPositions.map((p) => countBelow(positions, p + 1));
  const end = seen.reduce((a, b) => Math.max(a, b), 0);
  if (seen.includes(0)) return undefined;
  if (hide === undefined && seen.every((n) => n === end)) return { end, maskRows: 1 };
  const maskRows = hide === undefined ? 1 : group,
    mask = new Float32Array(maskRows * m * end);
  for (let h = 0; h < maskRows; h++)
    for (let r = 0; r < m; r++) {
      const at = (h * m + r) * end,
        hi = seen[r];
      mask.fill(-Infinity, at + hi, at + end);
      hide?.({ data: mask, at: h * m * end, stride: end }, r, queryPositions[r], hi, g * group + h, g);
      const own = positions[hi - 1] === queryPositions[r];
      if (hide !== undefined && !own && mask.subarray(at, at + hi).every((x) => x === -Infinity)) return undefined;
    }
  return { end, maskRows, mask };
}
