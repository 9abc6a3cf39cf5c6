import { checkNumber, isCount, positions } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { ScoreAllocator, Tensor } from '@kv/core';

export interface ThresholdOptions {
  /** A slot with this score or a higher one stays. @defaultValue 0 */
  readonly at?: number;
  /** Last positions that stay whatever their scores. @defaultValue 128 */
  readonly window?: number;
}

/**
 * A bar in the place of a size: every slot whose score reaches it stays, beside a sliding window.
 *
 * @remarks As kvpress' DMSPress does, after the inference of DMS (arXiv:2506.05345), for any scorer and selector: the
 * window is forced, and a head's budget is the number of slots that are forced or reach the bar. It replaces
 * the budgets that were asked for, if any were. Scores on KV rows, the mean of a group. Budgets `[G, 1]`. O(H n).
 * @throws KvError if `at` is not finite or `window` not a whole number.
 */
export function threshold({ at: bar = 0, window = 128 }: ThresholdOptions = {}): ScoreAllocator<'threshold'> {
  checkNumber('threshold', 'at', bar, 'a finite number', Number.isFinite);
  checkNumber('threshold', 'window', window, 'a whole number of positions', isCount);
  return scoreAllocator(
    { name: 'threshold', options: { at: bar, window }, floor: (n) => Math.min(n, window), sizes: true },
    [positions],
    ({ ops, at, positions: p, scores, budgets, forced, banned }) => {
      const onRows = (kind: 'mean' | 'max', x: Tensor): Tensor =>
        x.shape[0] > at.selectRows ? ops.groupRows(kind, x, at.selectRows) : ops.add(x, ops.mul(budgets, 0));
      const recent = ops.atLeast(p, at.length - window),
        must = forced ? ops.max(onRows('max', forced), recent) : ops.add(recent, ops.mul(budgets, 0));
      const reaches = ops.atLeast(onRows('mean', scores), bar),
        open = banned ? ops.mul(reaches, ops.less(onRows('max', banned), 1)) : reaches;
      return { budgets: ops.reduce('sum', ops.max(must, open), 'slots'), forced: recent };
    },
  );
}
