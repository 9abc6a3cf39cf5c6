import { values, weightScorer } from '@kv/core';

/**
 * Value norm: `|v_t|`, so tokens with long value vectors stay.
 *
 * @remarks Source: authors, year, identifier, equation. Scores on KV rows `[G, n]`, f32, at least 0, which
 * `weightScorer` promises and pieces such as `caote` need; where yours may be negative, it is `scorer`. O(G n d).
 */
export const __camel__ = weightScorer(
  '__camel__',
  {
    source: 'authors, year, identifier, equation',
    says: 'Tokens with long value vectors stay.',
    needs: [values],
  },
  ({ ops, values: v }) => ops.norm(v),
);
