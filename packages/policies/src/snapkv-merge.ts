import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { merge } from '@kv/transforms-merging';

export interface SnapkvMergeOptions {
  /** @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 5 */
  readonly kernel?: number;
  /** Cosine below which nothing is folded. @defaultValue 0 */
  readonly threshold?: number;
}

/**
 * SnapKV, with every evicted value folded into the kept slot of the nearest key. kvpress' MergingPress, after
 * arXiv:2210.09461.
 */
export const snapkvMerge = ({ window = 64, kernel = 5, threshold = 0 }: SnapkvMergeOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), topK(), merge({ threshold }));
