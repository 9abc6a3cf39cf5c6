import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { kvzip as score } from '@kv/scorers-reconstruction';
import type { KvzipOptions } from '@kv/scorers-reconstruction';
import { topK } from '@kv/selectors-top-k';

/** KVzip: what the model looks at while it repeats the context stays. Kim et al. 2025, arXiv:2505.23416. */
export const kvzip = (options?: KvzipOptions): Policy => compose(score(options), topK());
