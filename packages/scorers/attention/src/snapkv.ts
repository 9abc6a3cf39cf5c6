import { attentionWindow, checkNumber, checkWord, isPositiveInteger } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

export interface SnapkvOptions {
  /** Observation window w: the last queries, whose own tokens always stay. @defaultValue 64 */
  readonly window?: number;
  /** Odd width of the pooling before the window; 1 pools nothing. @defaultValue 5 */
  readonly kernel?: number;
  /** @defaultValue 'mean' */
  readonly pooling?: 'mean' | 'max';
}

/**
 * SnapKV: mean attention that a slot receives from the last w queries, pooled along the slots before the window.
 *
 * @remarks Li et al. 2024, arXiv:2404.14469. Weights on query rows `[H, n]`; pooled per query head, so any head
 * reduction comes
 * after. O(H w n d). The window keeps its raw column means, and stays by mask.
 * @throws KvError if `window` or `kernel` is not a positive whole number (`kernel` odd), or `pooling` another word.
 */
export function snapkv({ window = 64, kernel = 5, pooling = 'mean' }: SnapkvOptions = {}): Weigher<'snapkv'> {
  checkNumber('snapkv', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('snapkv', 'kernel', kernel, 'an odd positive whole number', (k) => isPositiveInteger(k) && k % 2 === 1);
  checkWord('snapkv', 'pooling', pooling, ['mean', 'max']);
  const options = { window, kernel, pooling: pooling === 'mean' ? undefined : pooling };
  return weigher(
    { name: 'snapkv', options, floor: (n) => Math.min(n, window) },
    [attentionWindow(window)],
    ({ ops, attention }) => ({
      scores: ops.pool(attention, { kernel, kind: pooling, except: window }),
      forced: ops.lastSlots(attention, window),
    }),
  );
}
