import { scoreAllocator } from '@kv/core';
import type { ScoreAllocator } from '@kv/core';

/** Ada-KV (Feng et al. 2024), kvpress' safeguard: each head's best ⌊α B⌋ are safe, the rest of the layer's slots go to the best of all heads. */
export const adaKV = ({ safeguard = 0.2 }: { safeguard?: number } = {}): ScoreAllocator<'adaKV'> => scoreAllocator({ name: 'adaKV', options: { safeguard } }, [], ({ ops, at, scores, budgets, forced }) => {
  const s = ops.groupRows('mean', scores, at.kvHeads);
  const safe = ops.less(ops.rank(s, 'row'), ops.map('floor', ops.mul(budgets, safeguard)));
  const sure = forced ? ops.max(safe, ops.groupRows('max', forced, at.kvHeads)) : safe;
  const total = ops.reduce('sum', budgets, 'rows');
  return { budgets: ops.reduce('sum', ops.less(ops.rank(ops.where(sure, 3e38, s), 'all'), total), 'slots') };
});
