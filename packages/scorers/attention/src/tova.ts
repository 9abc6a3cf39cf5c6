import { attentionLast, layerMean, positions } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * TOVA: the newest query's attention, averaged over all heads of the layer, which then keep the same tokens.
 *
 * @remarks Oren et al. 2024, arXiv:2401.06104. Weights on one layer row `[1, n]`, aligned by position where heads hold
 * different
 * tokens. `forceLast` keeps the newest token, as kvpress does; the authors' code does not. O(H n d).
 */
export function tova({
  forceLast = true,
}: {
  /** @defaultValue true */ readonly forceLast?: boolean;
} = {}): Weigher<'tova'> {
  return weigher(
    { name: 'tova', options: { forceLast: forceLast ? undefined : false }, floor: forceLast ? 1 : 0 },
    [attentionLast, positions],
    (ctx) => {
      const scores = layerMean(ctx, ctx.attention);
      return { scores, forced: forceLast ? ctx.ops.lastSlots(scores, 1) : undefined };
    },
  );
}
