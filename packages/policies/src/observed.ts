import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { observed as score } from '@kv/scorers-attention';
import type { SumOptions } from '@kv/scorers-attention';
import { topK } from '@kv/selectors-top-k';

/**
 * Observed attention: the mean attention that a slot received from the queries that could see it. kvpress'
 * ObservedAttentionPress.
 */
export const observed = (options?: SumOptions): Policy => compose(score(options), topK());
