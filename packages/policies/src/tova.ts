import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { tova as score } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/** TOVA: the newest query's attention, averaged over the heads of a layer. Oren et al. 2024, arXiv:2401.06104. */
export const tova = (options?: Parameters<typeof score>[0]): Policy => compose(score(options), topK());
