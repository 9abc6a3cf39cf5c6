import { blockAttention, checkNumber, isPositiveInteger, keys, overWindow, positions, queries, values } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';
import { squaredErrors } from './squared-errors.ts';

/**
 * DropKV: how far the outputs of the last w queries move when token j alone is evicted, s_j = Σ_i (p_ij / (1 - p_ij))²
 * |v_j - o_i|², CAOTE's exact error of every query, squared and summed.
 *
 * @remarks openreview MqfNzH3TVH, with the formula of kvpress' issue 284. Weights on query rows `[H, n]`; the window is
 * forced. A squared distance in the space of values, so heads may be compared. O(w H n d).
 * @throws KvError if `window` is not a positive whole number.
 */
export function dropkv({
  window = 32,
}: {
  /** Last queries that are looked at, whose own slots stay. @defaultValue 32 */ readonly window?: number;
} = {}): Weigher<'dropkv'> {
  checkNumber('dropkv', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  return weigher(
    { name: 'dropkv', options: { window }, floor: (n) => Math.min(n, window) },
    [queries(window), keys, values, positions],
    (ctx) => {
      const { ops, at, values: v } = ctx,
        last = ops.lastSlots(ctx.keys, window);
      const squares = overWindow(ctx, 'sum', at.queryHeads, (block) => {
        const p = blockAttention(ctx, block);
        return ops.kernel(squaredErrors, { p, o: ops.matmul(p, v), v }, { heads: at.queryHeads });
      });
      return { scores: ops.where(last, 0, squares), forced: last }; // forced slots need no score, and the newest query's own may be beyond f32
    },
  );
}
