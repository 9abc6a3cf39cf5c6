import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { cur as score } from '@kv/scorers-keys';
import type { CurOptions } from '@kv/scorers-keys';
import { topK } from '@kv/selectors-top-k';

/** CUR: large keys with large values within their window stay. Sengupta et al. 2025, arXiv:2509.15038. */
export const cur = (options?: CurOptions): Policy => compose(score(options), topK());
