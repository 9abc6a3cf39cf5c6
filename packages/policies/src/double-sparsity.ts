import { compose, view } from '@kv/core';
import type { Policy } from '@kv/core';
import { labels } from '@kv/scorers-retrieval';
import type { LabelsOptions } from '@kv/scorers-retrieval';
import { topK } from '@kv/selectors-top-k';

export interface DoubleSparsityOptions extends LabelsOptions {
  /** Slots that a query head sees. @defaultValue 1024 */
  readonly slots?: number;
}

/**
 * Double Sparsity: every decoded query sees the slots whose few heavy channels score highest; nothing is evicted. Yang
 * et al. 2024, arXiv:2408.07092.
 */
export const doubleSparsity = ({ channels = 16, window = 32, slots = 1024 }: DoubleSparsityOptions = {}): Policy =>
  view(compose(labels({ channels, window }), topK()), { budget: slots });
