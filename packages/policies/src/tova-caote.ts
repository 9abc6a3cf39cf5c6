import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { tova } from '@kv/scorers-attention';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

/** TOVA's scores as weights of CAOTE's eviction error. Goel et al. 2025, arXiv:2504.14051. */
export const tovaCaote = (options?: Parameters<typeof tova>[0]): Policy => compose(tova(options), caote(), topK());
