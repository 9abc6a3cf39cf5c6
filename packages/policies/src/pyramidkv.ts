import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { pyramidkv as budgets } from '@kv/allocators-pyramidal';
import { snapkv } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';
import type { PyramidOptions } from './pyramidal.ts';

/**
 * PyramidKV by kvpress' rule: SnapKV under budgets on a line that includes the window. Cai et al. 2024,
 * arXiv:2406.02069.
 */
export const pyramidkv = ({ window = 64, kernel = 5, beta = 20 }: PyramidOptions = {}): Policy =>
  compose(snapkv({ window, kernel }), budgets({ window, beta }), topK());
