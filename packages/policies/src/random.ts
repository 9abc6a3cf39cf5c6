import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { random as score } from '@kv/scorers-random';
import { topK } from '@kv/selectors-top-k';

/** Random eviction, by a hash of seed, layer, head and position. */
export const random = (options?: Parameters<typeof score>[0]): Policy => compose(score(options), topK());
