import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { tova } from '@kv/scorers-attention';
import { fastCaote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

/** TOVA's scores as weights of FastCAOTE's eviction error. Goel et al. 2025, arXiv:2504.14051. */
export const tovaFastCaote = (options?: Parameters<typeof tova>[0]): Policy =>
  compose(tova(options), fastCaote(), topK());
