import { compose } from '@kv/core';
import type { Policy } from '@kv/core';
import { expectedAttention as score, expectedAttentionStats as calibrated } from '@kv/scorers-expected-attention';
import type { ExpectedAttentionOptions, ExpectedAttentionStatsOptions } from '@kv/scorers-expected-attention';
import { topK } from '@kv/selectors-top-k';

/**
 * Expected attention: what a normal distribution of future queries would look at. Devoto et al. 2025, arXiv:2510.00636.
 */
export const expectedAttention = (options?: ExpectedAttentionOptions): Policy => compose(score(options), topK());
/** The same by calibrated statistics of queries. Needs `query-statistics.safetensors` beside the model. */
export const expectedAttentionStats = (options?: ExpectedAttentionStatsOptions): Policy =>
  compose(calibrated(options), topK());
