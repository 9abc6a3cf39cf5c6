import { keys, scorer } from '@kv/core';

/**
 * Negated key norm, -|k|_2: keys of small norm are the ones that queries attend to most, so they stay.
 *
 * @remarks Devoto et al. 2024, arXiv:2406.11430. Scores of at most 0 on KV rows `[G, n]`, in units of the key; not
 * comparable across heads without a normaliser. Reads no attention. O(G n d).
 */
export const knorm = scorer(
  'knorm',
  { source: 'Devoto et al. 2024, arXiv:2406.11430', says: 'Minus the norm of the key.', needs: [keys] },
  ({ ops, keys: k }) => ops.mul(ops.norm(k), -1),
);
