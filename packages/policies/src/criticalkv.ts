import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import { criticalkv as again } from '@kv/transforms-critical';

export interface CriticalkvPolicyOptions {
  /** @defaultValue 64 */
  readonly window?: number;
  /** @defaultValue 5 */
  readonly kernel?: number;
  /** Share of the budget that SnapKV decides alone. @defaultValue 0.5 */
  readonly first?: number;
}

/**
 * CriticalKV over SnapKV: half of the budget by SnapKV, the rest by score times |v W_O|. Feng et al. 2025,
 * arXiv:2502.03805.
 */
export const criticalkv = ({ window = 64, kernel = 5, first = 0.5 }: CriticalkvPolicyOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), again({ first }), topK());
