import { checkNumber, checkWord, isCount, isPositiveInteger, keys, positions, values, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';

export interface CurOptions {
  /** First positions, which get the score 1. @defaultValue 4 */
  readonly sinks?: number;
  /** Slots whose squared norms are measured against each other. @defaultValue 16 */
  readonly window?: number;
  /** Whose squared norms: keys', values', their product or their mean. @defaultValue 'product' */
  readonly of?: 'key' | 'value' | 'product' | 'mean';
}

/**
 * CUR: squared norms of key and value, each as a share of its window of slots, multiplied and normalised per head: approximate
 * leverage scores.
 *
 * @remarks Sengupta et al. 2025, arXiv:2509.15038, with kvpress' defaults. Weights on KV rows `[G, n]`, at most 1; sinks
 * score 1 instead. Reads no attention. O(G n d).
 * @throws KvError if `sinks` is not a whole number, `window` not a positive one, or `of` another word.
 */
export function cur({ sinks = 4, window = 16, of = 'product' }: CurOptions = {}): Weigher<'cur'> {
  checkNumber('cur', 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber('cur', 'window', window, 'a positive whole number of slots', isPositiveInteger);
  checkWord('cur', 'of', of, ['key', 'value', 'product', 'mean']);
  return weigher({ name: 'cur', options: { sinks, window, of: of === 'product' ? undefined : of } }, [keys, values, positions], ({ ops, at, keys: k, values: v, positions: p }) => {
    const count = Math.ceil(at.slots / window);
    const windows = ops.from({ data: Uint32Array.from({ length: at.slots }, (_, i) => Math.floor(i / window)), shape: [1, at.slots] });
    const share = (x: typeof k): typeof k => {
      const norm = ops.norm(x), square = ops.mul(norm, norm);
      return ops.div(square, ops.max(ops.take(ops.groupSlots('sum', square, windows, count), windows), 1e-30));
    };
    const both = of === 'key' ? share(k) : of === 'value' ? share(v) : of === 'product' ? ops.mul(share(k), share(v)) : ops.div(ops.add(share(k), share(v)), 2);
    return ops.where(ops.less(p, sinks), 1, ops.simplex(both));
  });
}
