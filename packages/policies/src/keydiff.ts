import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { keydiff as score } from '@kv/scorers-keys';
import { topK } from '@kv/selectors-top-k';

/** KeyDiff: keys unlike the mean of their head stay. Park et al. 2025, arXiv:2504.15364. */
export const keydiff = (): Policy => compose(score(), topK());
