import { attentionWindow, checkNumber, isCount, isPositiveInteger } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

export interface ScissorhandsOptions {
  /** Past queries that vote. @defaultValue 64 */
  readonly window?: number;
  /** Last slots that always stay. @defaultValue 10 */
  readonly recent?: number;
}

/**
 * Scissorhands: in how many of the last w steps a slot received more than the mean weight, 1 / (slots that the query
 * saw).
 *
 * @remarks Liu et al. 2023, arXiv:2305.17118 (persistence of importance). Weights in 0 .. 1 on query rows `[H, n]`. The
 * paper's history is 400
 * steps, and its larger budgets in later layers are an allocator's work. O(w H n d).
 * @throws KvError if `window` is not a positive whole number or `recent` not a whole one.
 */
export function scissorhands({ window = 64, recent = 10 }: ScissorhandsOptions = {}): Weigher<'scissorhands'> {
  checkNumber('scissorhands', 'window', window, 'a positive whole number of queries', isPositiveInteger);
  checkNumber('scissorhands', 'recent', recent, 'a whole number of slots', isCount);
  return weigher(
    { name: 'scissorhands', options: { window, recent }, floor: (n) => Math.min(n, recent) },
    [attentionWindow(window, 'votes')],
    ({ ops, attention }) => ({ scores: attention, forced: ops.lastSlots(attention, recent) }),
  );
}
