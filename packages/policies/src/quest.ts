import { compose, view } from '@kv/core';
import type { Policy } from '@kv/core';
import { pageBounds } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';

export interface QuestOptions {
  /** Slots in a page. @defaultValue 16 */
  readonly page?: number;
  /** Slots that a query head sees. @defaultValue 1024 */
  readonly slots?: number;
}

/**
 * Quest: every decoded query sees the pages whose bound is highest; nothing is evicted. Tang et al. 2024,
 * arXiv:2406.10774.
 */
export const quest = ({ page = 16, slots = 1024 }: QuestOptions = {}): Policy =>
  view(compose(pageBounds({ page }), topK()), { budget: slots });
