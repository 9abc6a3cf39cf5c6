import { compose, rerotate } from '@kv/core';
import type { Policy } from '@kv/core';
import { finch as score } from '@kv/scorers-window';
import { topK } from '@kv/selectors-top-k';

/** Finch: what the question looks at, at positions within the cache. Corallo and Papotti 2024, TACL. */
export const finch = (options?: Parameters<typeof score>[0]): Policy => compose(score(options), topK(), rerotate());
