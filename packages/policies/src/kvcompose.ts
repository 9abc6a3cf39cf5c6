import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { compositeTokens } from '@kv/allocators-preference';
import { kvcompose as score } from '@kv/scorers-reconstruction';
import { topK } from '@kv/selectors-top-k';

/**
 * KVCompose: what a second reading of the context looks at, layers by their composite tokens. Akulov et al. 2025,
 * arXiv:2509.05165.
 */
export const kvcompose = (): Policy => compose(score(), compositeTokens(), topK());
