import { oneOf, positions, tokens, weightScorer } from '@kv/core';
import type { Ops, Tensor } from '@kv/core';
import { counts } from './counts.ts';

const FORMS = {
  log: (ops: Ops, c: Tensor) => ops.div(1, ops.add(1, ops.map('log1p', c))),
  inverse: (ops: Ops, c: Tensor) => ops.div(1, ops.add(1, c)),
  exponential: (ops: Ops, c: Tensor) => ops.exp(ops.mul(c, -1)),
};

/**
 * Von Restorff rarity, U = 1 / (1 + ln(1 + c)), with c the occurrences of a slot's token id in the present context.
 *
 * @remarks CrystalCache, eq. 20 and 21; the paper names 1 / (1 + c) and e^-c and never ran them. Weights in [0,
 * 1/(1 + ln 2)] on KV rows `[G, n]`; reads ids only, O(N). The context is everything seen so far: the paper counts over
 * all n input ids, so evicted tokens count too.
 */
export const rarity = weightScorer(
  'rarity',
  {
    source: 'CrystalCache, eq. 21',
    says: "How rare a token's id is in the context.",
    options: { form: oneOf(['log', 'inverse', 'exponential'], 'log', '1 / (1 + ln(1 + c)), 1 / (1 + c) or e^-c.') },
    needs: [tokens, positions],
  },
  ({ ops, at, tokens: { ids }, positions: p }, { form }) =>
    FORMS[form](ops, ops.take(ops.from(counts(ids, at.length)), p)),
);
