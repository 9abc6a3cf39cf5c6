import { compose, zScore } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import { diversity } from '@kv/selectors-diversity';

export interface AlphaOptions {
  /** Weight of the redundancy penalty; 0 is top-k. @defaultValue 0.5 */
  readonly lambda?: number;
  /** SnapKV's observation window. @defaultValue 64 */
  readonly window?: number;
  /** SnapKV's pooling width. @defaultValue 5 */
  readonly kernel?: number;
}

/**
 * SnapKV's weights in standard deviations, then set-conditioned diversity. On the paper's own base scorer:
 * `alphaTriattention`.
 */
export const alpha = ({ lambda = 0.5, window = 64, kernel = 5 }: AlphaOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), zScore(), diversity({ lambda }));
