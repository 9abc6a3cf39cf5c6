import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { dropkv as score } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';

/** DropKV: the exact eviction errors of the last queries, squared and summed. openreview MqfNzH3TVH. */
export const dropkv = (options?: Parameters<typeof score>[0]): Policy => compose(score(options), topK());
