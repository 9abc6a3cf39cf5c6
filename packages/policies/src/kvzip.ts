import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { modelWide } from '@kv/allocators-preference';
import { kvzip as score } from '@kv/scorers-reconstruction';
import type { KvzipOptions } from '@kv/scorers-reconstruction';
import { topK } from '@kv/selectors-top-k';

/** KVzip: what the model looks at while it repeats the context stays. Kim et al. 2025, arXiv:2505.23416. */
export const kvzip = (options?: KvzipOptions): Policy => compose(score(options), topK());
/**
 * KVzip with its own budgets: every key-value pair competes with those of all layers and heads. Kim et al. 2025,
 * arXiv:2505.23416.
 */
export const kvzipModelWide = (options?: KvzipOptions): Policy => compose(score(options), modelWide(), topK());
