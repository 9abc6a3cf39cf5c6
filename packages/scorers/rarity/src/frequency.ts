import { positions, tokens, weightScorer } from '@kv/core';
import { counts } from './counts.ts';

/**
 * Frequency, F = c / n: the share of the present context with the slot's token id.
 *
 * @remarks The penalty of Transactional Attention, eq. 1 and 3, which leaves F open ("penalizes frequent tokens"); the
 * share is ours. Weights in (0, 1] on KV rows `[G, n]`; evicted tokens count, as in `rarity`.
 */
export const frequency = weightScorer(
  'frequency',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 1',
    says: "The share of the context that a token's id makes up.",
    needs: [tokens, positions],
  },
  ({ ops, at, tokens: { ids }, positions: p }) => ops.div(ops.take(ops.from(counts(ids, at.length)), p), at.length),
);
