import { positions } from '@kv/core';
import { weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * Recency, R = i / n for the i-th of the n tokens seen, counted from 1. Transactional Attention, eq. 1. Weights in (0,
 * 1] on KV rows `[G, n]`.
 */
export const recency = (): Weigher<'recency'> =>
  weigher('recency', [positions], ({ ops, at, positions: p }) => ops.div(ops.add(p, 1), at.length));
