import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { snapkv } from '@kv/scorers-attention';
import type { SnapkvOptions } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

/** SnapKV's scores as weights of CAOTE's eviction error. Goel et al. 2025, arXiv:2504.14051. */
export const snapkvCaote = (options?: SnapkvOptions): Policy => compose(snapkv(options), caote(), topK());
