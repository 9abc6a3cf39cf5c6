import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { leverage as score } from '@kv/scorers-compactor';
import { topK } from '@kv/selectors-top-k';

/** Leverage scores of the keys before rotation. Chari and Van Durme 2025, arXiv:2507.08143. */
export const leverage = (options?: { readonly jitter?: number }): Policy => compose(score(options), topK());
