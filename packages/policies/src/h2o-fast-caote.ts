import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o } from '@kv/scorers-attention';
import type { H2oOptions } from '@kv/scorers-attention';
import { fastCaote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

/** H2O's scores as weights of FastCAOTE's eviction error. Goel et al. 2025, arXiv:2504.14051. */
export const h2oFastCaote = (options?: H2oOptions): Policy => compose(h2o(options), fastCaote(), topK());
