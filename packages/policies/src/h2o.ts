import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { h2o as score } from '@kv/scorers-attention';
import type { H2oOptions } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/** H2O: attention summed over all queries, and a recent window. Zhang et al. 2023, arXiv:2306.14048. */
export const h2o = (options?: H2oOptions): Policy => compose(score(options), topK());
