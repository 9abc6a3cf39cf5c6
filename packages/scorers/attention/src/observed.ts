import { attentionAccumulated, positions, weigher } from '@kv/core';
import type { Weigher } from '@kv/core';

/**
 * Observed attention: the mean attention that a slot received from the queries that could see it.
 *
 * @remarks kvpress' ObservedAttention, related to H2O: A_p / (length - p) for position p. Weights on query rows `[H, n]`. Costs
 * a statistic over every query.
 */
export const observed = (): Weigher<'observed'> => weigher('observed', [attentionAccumulated, positions], ({ ops, at, attention, positions: p }) =>
  ops.div(attention, ops.sub(at.length, p)));
