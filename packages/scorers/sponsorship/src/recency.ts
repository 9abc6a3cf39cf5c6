import { positions, weightScorer } from '@kv/core';

/**
 * Recency, R = i / n for the i-th of the n tokens seen, counted from 1. Transactional Attention, eq. 1. Weights in (0,
 * 1] on KV rows `[G, n]`.
 */
export const recency = weightScorer(
  'recency',
  { source: 'Basu 2026, arXiv:2604.11288, eq. 1', says: 'How late a position is, 0..1.', needs: [positions] },
  ({ ops, at, positions: p }) => ops.div(ops.add(p, 1), at.length),
);
