import { as, attentionLast, number, onStep, state, weightScorer } from '@kv/core';

const options = { rate: number(0.9, 'What is left of the average after a token.', { least: 0, most: 1 }) };
const needs = ({ rate }: { readonly rate: number }) =>
  [
    attentionLast,
    as('past', state(`pension(${rate})`, { kind: 'slot', rows: 'query' })),
    as('started', state(`pensioned(${rate})`, { kind: 'sequence', rows: 'query' })),
  ] as const;

const pensioning = onStep('pensioning', { options, needs }, ({ ops, started, past, attention }, { rate }) => ({
  past: ops.where(started, ops.add(ops.mul(past, rate), ops.mul(attention, 1 - rate)), attention),
  started: ops.fill(started, 1),
}));

/**
 * Pension, P: a moving average of the attention that a slot received, P <- rate P + (1 - rate) a after every generated
 * token, from the first one's attention on; before that, the newest prompt token's attention.
 *
 * @remarks Transactional Attention, eq. 1, which gives neither rate nor start: both are ours. Weights on query rows
 * `[H, n]`.
 */
export const pension = weightScorer(
  'pension',
  {
    source: 'Basu 2026, arXiv:2604.11288, eq. 1',
    says: 'A moving average of the attention that a slot received.',
    options,
    needs,
    hooks: ({ rate }) => [pensioning({ rate })],
  },
  ({ ops, started, past, attention }) => ops.where(started, past, attention),
);
