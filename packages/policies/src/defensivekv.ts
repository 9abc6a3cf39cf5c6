import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { adaKV } from '@kv/allocators-ada-kv';
import { modelWide } from '@kv/allocators-preference';
import { defensive } from '@kv/scorers-window';
import type { DefensiveOptions } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';
import { outputShare } from '@kv/transforms-critical';

/**
 * DefensiveKV: the worst case over queries and heads, times the value's share of the output, heads compared. Feng et
 * al. 2025, arXiv:2510.13334.
 */
export const defensivekv = (options?: DefensiveOptions): Policy =>
  compose(defensive(options), outputShare(), adaKV({ safeguard: 0 }), topK());
/** Layer-DefensiveKV: the same scores, compared over all layers too. Feng et al. 2025, arXiv:2510.13334. */
export const layerDefensivekv = (options?: DefensiveOptions): Policy =>
  compose(defensive(options), outputShare(), modelWide(), topK());
