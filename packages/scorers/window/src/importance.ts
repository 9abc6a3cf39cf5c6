import { checkNumber, isPositiveInteger, keys, LOWEST, queries, weigher } from '@kv/core';
import type { Tensor, Weigher } from '@kv/core';

export interface ImportanceOptions {
  /** Last queries that are looked at, whose own slots stay. @defaultValue 8 */
  readonly window?: number;
  /** Odd width of the maximum over neighbouring slots. @defaultValue 7 */
  readonly kernel?: number;
}

/**
 * R-KV's importance: for each of the last w queries the softmax, over the slots before the window, of the largest logit of the head group; mean over the
 * queries, maximum over neighbours.
 *
 * @remarks Cai et al. 2025, arXiv:2505.24133. Weights on KV rows `[G, n]`, 0 in the window, which is forced. O(w H n d).
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd).
 */
export function importance({ window = 8, kernel = 7 }: ImportanceOptions = {}): Weigher<'importance'> {
  checkNumber('importance', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('importance', 'kernel', kernel, 'an odd positive whole number', (k) => isPositiveInteger(k) && k % 2 === 1);
  return weigher({ name: 'importance', options: { window, kernel }, floor: (n) => Math.min(n, window) }, [queries(window), keys], ({ ops, at, queries: q, keys: k }) => {
    const [H = 1, w = 1, d = 1] = q.shape, last = ops.lastSlots(ops.norm(k), window);
    const rows = Array.from({ length: w }, (_, i): Tensor => {
      const one = ops.reshape(ops.take(q, ops.from({ data: Uint32Array.of(i), shape: [1, 1] })), [H, d]);
      return ops.softmax(ops.where(last, LOWEST, ops.groupRows('max', ops.div(ops.dot(one, k), Math.sqrt(d)), at.kvHeads)));
    });
    const mean = ops.where(last, 0, ops.div(rows.reduce((a, b) => ops.add(a, b)), w));
    return { scores: ops.pool(mean, { kernel, kind: 'max', except: window }), forced: last };
  });
}
