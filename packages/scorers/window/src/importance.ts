import { checkNumber, isPositiveInteger, keys, LOWEST, overWindow, queries } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

export interface ImportanceOptions {
  /** Last queries that are looked at, whose own slots stay. @defaultValue 8 */
  readonly window?: number;
  /** Odd width of the maximum over neighbouring slots. @defaultValue 7 */
  readonly kernel?: number;
}

/**
 * R-KV's importance: for each of the last w queries the softmax, over the slots before the window, of the largest logit
 * of the head group; mean over the
 * queries, maximum over neighbours.
 *
 * @remarks Cai et al. 2025, arXiv:2505.24133. Weights on KV rows `[G, n]`, 0 in the window, which is forced. O(w H n
 * d).
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd).
 */
export function importance({ window = 8, kernel = 7 }: ImportanceOptions = {}): Weigher<'importance'> {
  checkNumber('importance', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber(
    'importance',
    'kernel',
    kernel,
    'an odd positive whole number',
    (k) => isPositiveInteger(k) && k % 2 === 1,
  );
  return weigher(
    { name: 'importance', options: { window, kernel }, floor: (n) => Math.min(n, window) },
    [queries(window), keys],
    (ctx) => {
      const { ops, at, keys: k } = ctx,
        [G = 1, n = 1] = k.shape,
        last = ops.lastSlots(k, window);
      const sums = overWindow(ctx, 'sum', G, ({ queries: q, count: c }) => {
        const largest = ops.groupRows('max', ops.reshape(ops.dot(q, k), [at.queryHeads, c * n]), G); // over the group's heads, for each query
        return ops.softmax(ops.where(last, LOWEST, ops.reshape(largest, [G * c, n])));
      });
      const mean = ops.where(last, 0, ops.div(sums, ctx.queries.shape[1]));
      return { scores: ops.pool(mean, { kernel, kind: 'max', except: window }), forced: last };
    },
  );
}
