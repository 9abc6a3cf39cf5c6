import { as, attentionLast, checkNumber, state } from '@kv/core';
import { onStep, weigher } from '@kv/core/old';
import type { Weigher } from '@kv/core';

/**
 * Pension, P: a moving average of the attention that a slot received, P <- rate P + (1 - rate) a after every generated
 * token, from the newest prompt token's attention on.
 *
 * @remarks Transactional Attention, eq. 1, which gives neither rate nor start: both are ours. Weights on query rows
 * `[H, n]`.
 * @throws KvError if `rate` is outside [0, 1].
 */
export function pension({ rate = 0.9 }: { /** @defaultValue 0.9 */ readonly rate?: number } = {}): Weigher<'pension'> {
  checkNumber('pension', 'rate', rate, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  const past = as('past', state(`pension(${rate})`, { kind: 'slot', rows: 'query' })),
    started = as('started', state(`pensioned(${rate})`, { kind: 'sequence', rows: 'query' }));
  const options = { rate },
    needs = [attentionLast, past, started] as const;
  const score = weigher({ name: 'pension', options }, needs, ({ ops, started: on, past: before, attention }) =>
    ops.where(on, before, attention),
  );
  const ageing = onStep({ name: 'pensioning', options }, needs, ({ ops, started: on, past: before, attention: a }) => ({
    past: ops.where(on, ops.add(ops.mul(before, rate), ops.mul(a, 1 - rate)), a),
    started: ops.fill(on, 1),
  }));
  return { ...score, atoms: [...score.atoms, ...ageing.atoms] };
}
