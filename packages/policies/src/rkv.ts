import { compose, weighted } from '@kv/core';
import type { Policy } from '@kv/core';
import { importance, redundancy } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';

export interface RkvOptions {
  /** @defaultValue 8 */
  readonly window?: number;
  /** @defaultValue 7 */
  readonly kernel?: number;
  /** Weight of the importance; redundancy has minus the rest to 1. @defaultValue 0.1 */
  readonly lambda?: number;
}

/** R-KV: importance against redundancy. Cai et al. 2025, arXiv:2505.24133. */
export const rkv = ({ window = 8, kernel = 7, lambda = 0.1 }: RkvOptions = {}): Policy =>
  compose(weighted([lambda, importance({ window, kernel })], [lambda - 1, redundancy()]), topK());
