import { blockAttention, checkNumber, isPositiveInteger, keys, overWindow, positions, queries } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

export interface DefensiveOptions {
  /** Last queries that are looked at, whose own slots stay. @defaultValue 32 */
  readonly window?: number;
  /** Odd width of the mean over neighbouring slots. @defaultValue 5 */
  readonly kernel?: number;
}

/**
 * DefensiveKV's worst case: the largest attention that a slot received from any of the last w queries and heads of its
 * group, and at least the mean of
 * these over the head's slots.
 *
 * @remarks Feng et al. 2025, arXiv:2510.13334. Each row is pooled and keeps its mass before the window. Weights on KV
 * rows `[G, n]`; the window is
 * forced. The paper weighs by the size of the value in the output: put `outputShare()` behind it. O(w H n d).
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd).
 */
export function defensive({ window = 32, kernel = 5 }: DefensiveOptions = {}): Weigher<'defensive'> {
  checkNumber('defensive', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber(
    'defensive',
    'kernel',
    kernel,
    'an odd positive whole number',
    (k) => isPositiveInteger(k) && k % 2 === 1,
  );
  return weigher(
    { name: 'defensive', options: { window, kernel }, floor: (n) => Math.min(n, window) },
    [queries(window), keys, positions],
    (ctx) => {
      const { ops, at } = ctx,
        last = ops.lastSlots(ctx.keys, window),
        open = ops.sub(1, last);
      const sum = (x: typeof last): typeof last => ops.reduce('sum', x, 'slots');
      const worst = overWindow(ctx, 'max', at.kvHeads, (block) => {
        const before = ops.mul(blockAttention(ctx, block), open),
          smooth = ops.pool(before, { kernel, kind: 'mean', except: window });
        return ops.mul(smooth, ops.div(sum(before), ops.max(sum(smooth), 1e-30)));
      });
      return { scores: ops.mul(open, ops.max(worst, ops.div(sum(worst), ops.max(sum(open), 1)))), forced: last };
    },
  );
}
