import { selector } from '@kv/core';
import { loopBytes } from './top-k-loop.ts';

/**
 * Top-k: the forced slots, then the highest scores, ties to the lower slot, never a banned one. Nested: S_k is part of
 * S_k+1.
 */
export const topK = selector(
  'topK',
  {
    source: '@kv/core',
    says: 'The highest scores, ties to the lower slot.',
    loop: () => ({ bytes: loopBytes }),
  },
  ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks),
);
