import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { knorm as score } from '@kv/scorers-knorm';
import { topK } from '@kv/selectors-top-k';

/** L2 norm: keys of small norm stay. Devoto et al. 2024, arXiv:2406.11430. */
export const knorm = (): Policy => compose(score(), topK());
