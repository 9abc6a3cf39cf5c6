import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { dynamickv as budgets } from '@kv/allocators-preference';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

export interface DynamickvPolicyOptions {
  /** @defaultValue 32 */
  readonly window?: number;
  /** @defaultValue 7 */
  readonly kernel?: number;
  /** No layer gets more than this many times the mean. @defaultValue 10 */
  readonly most?: number;
}

/** DynamicKV over SnapKV: layers by their share of the best scores of the model. Zhou et al. 2024, arXiv:2412.14838. */
export const dynamickv = ({ window = 32, kernel = 7, most = 10 }: DynamickvPolicyOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), budgets({ window, most }), topK());
