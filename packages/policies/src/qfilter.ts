import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { qfilter as score } from '@kv/scorers-keys';
import { topK } from '@kv/selectors-top-k';

/**
 * Q-Filters: keys along the main direction of queries stay. Godey et al. 2025, arXiv:2503.02812. Needs
 * `q-filters.safetensors` beside the model.
 */
export const qfilter = (): Policy => compose(score(), topK());
