import { compose, method, selector, values, weightScorer } from '@kv/core';

/** Value norm, `|v_t|`: tokens with long value vectors stay. Scores on KV rows `[G, n]`, f32, at least 0. O(G n d). */
export const __camel__Norm = weightScorer(
  '__camel__Norm',
  { source: 'authors, year, identifier, equation', says: 'Tokens with long value vectors stay.', needs: [values] },
  ({ ops, values: v }) => ops.norm(v),
);

/** The forced slots, then the highest scores, ties to the lower slot, never a banned one. */
export const __camel__Top = selector(
  '__camel__Top',
  { source: 'authors, year, identifier, equation', says: 'The highest scores, ties to the lower slot.' },
  ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks),
);

/** The policy: a composition under one name. Pieces of other packages go into it as well. */
export const __camel__ = method(
  '__camel__',
  { source: 'authors, year, identifier, equation', says: 'Keeps the tokens with the longest value vectors.' },
  () => compose(__camel__Norm(), __camel__Top()),
);
