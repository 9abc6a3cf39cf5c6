import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv as score } from '@kv/scorers-attention';
import type { SnapkvOptions } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/**
 * SnapKV: pooled attention of the last `window` queries, whose own tokens stay, so `window` must not exceed the budget.
 * Li et al. 2024, arXiv:2404.14469.
 */
export const snapkv = (options?: SnapkvOptions): Policy => compose(score(options), topK());
