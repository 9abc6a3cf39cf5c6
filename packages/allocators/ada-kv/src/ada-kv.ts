import { checkNumber, LOWEST } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { ScoreAllocator } from '@kv/core';

export interface AdaKvOptions {
  /** Share of its budget that every head keeps for its own best slots. @defaultValue 0.2 */
  readonly safeguard?: number;
}

/**
 * Ada-KV: the slots of a layer go to the best scores of all its heads, once every head has ⌊safeguard · B⌋ of its own
 * best, B its budget or the layer's mean, whichever is more, but no more than its budget.
 *
 * @remarks Feng et al. 2024, arXiv:2407.11550, with kvpress' safeguard, which keeps the layer's sum exact. Budgets `[G,
 * 1]` of the
 * sum that comes in; forced slots count first. Scores of different heads are compared as they are. One rank, O(G n log²
 * n).
 * @throws KvError if `safeguard` is not a share from 0 to 1.
 */
export function adaKV({ safeguard = 0.2 }: AdaKvOptions = {}): ScoreAllocator<'adaKV'> {
  checkNumber('adaKV', 'safeguard', safeguard, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  return scoreAllocator(
    { name: 'adaKV', options: { safeguard } },
    [],
    ({ ops, at, scores, budgets, forced, banned }) => {
      const onHeads = (kind: 'mean' | 'max', x: typeof scores): typeof scores =>
        x.shape[0] > at.selectRows ? ops.groupRows(kind, x, at.selectRows) : ops.add(x, ops.mul(budgets, 0));
      const s = banned ? ops.where(onHeads('max', banned), LOWEST, onHeads('mean', scores)) : onHeads('mean', scores);
      const least = ops.min(
        budgets,
        ops.map('floor', ops.mul(ops.max(budgets, ops.reduce('mean', budgets, 'rows')), safeguard)),
      ); // a head that an earlier event left short is not cut to a share of what it has
      const sure = ops.mark(ops.select(s, least, { forced: forced && onHeads('max', forced) }), s);
      return {
        budgets: ops.reduce(
          'sum',
          ops.less(ops.rank(ops.where(sure, -LOWEST, s), 'all'), ops.reduce('sum', budgets, 'rows')),
          'slots',
        ),
      };
    },
  );
}
