import { compose, view } from '@kv/core';
import type { Policy } from '@kv/core';
import { exact } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';

/**
 * The true top-k of every decoded query: the most attention mass that a set of this size can hold. It reads every key:
 * a yardstick.
 */
export const topKOracle = ({ slots = 1024 }: { /** @defaultValue 1024 */ readonly slots?: number } = {}): Policy =>
  view(compose(exact(), topK()), { budget: slots });
