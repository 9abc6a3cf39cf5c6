import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { lagkv as score } from '@kv/scorers-keys';
import type { LagkvOptions } from '@kv/scorers-keys';
import { topK } from '@kv/selectors-top-k';

/**
 * LagKV: keys and values that lie unevenly between the bounds of the next `lag` slots stay. Liang et al. 2025,
 * arXiv:2504.04704.
 */
export const lagkv = (options?: LagkvOptions): Policy => compose(score(options), topK());
