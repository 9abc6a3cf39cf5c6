import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { pyramidal as budgets } from '@kv/allocators-pyramidal';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

export interface PyramidOptions {
  /** Observation window of SnapKV. @defaultValue 64 */
  readonly window?: number;
  /** Pooling width of SnapKV. @defaultValue 5 */
  readonly kernel?: number;
  /** Steepness of the line. @defaultValue 20 */
  readonly beta?: number;
}

/** PyramidKV by the authors' line, above the window, with a sum that is exact. Cai et al. 2024, arXiv:2406.02069. */
export const pyramidal = ({ window = 64, kernel = 5, beta = 20 }: PyramidOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), budgets({ beta }), topK());
