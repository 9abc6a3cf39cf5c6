import { attentionWindow, checkNumber, isCount, isPositiveInteger, KvError, positions } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { ScoreAllocator, Tensor } from '@kv/core';

export interface SimlayerkvOptions {
  /** A layer is lazy above this share of attention; at 1 none is. @defaultValue 0.9 */
  readonly threshold?: number;
  /** First positions. @defaultValue 4 */
  readonly sinks?: number;
  /** Recent positions, `last` of them the queries' own. @defaultValue 1024 */
  readonly recent?: number;
  /** Last queries whose attention is looked at. @defaultValue 1 */
  readonly last?: number;
}

/**
 * SimLayerKV: a layer that looks at little but its first and recent positions keeps as many slots as those are, any
 * other layer everything.
 *
 * @remarks Zhang et al. 2024, arXiv:2410.13846, as kvpress does it: lazy is a layer whose last queries give more than
 * `threshold` of their attention, mean over heads, to the first `sinks` positions and to
 * the `recent` ones before them. Over `streaming(sinks)` a lazy layer keeps sinks + recent - last slots by position,
 * over another scorer its best. Heads of at most sinks + recent + last slots keep all. Replaces the
 * budgets that were asked for, if any were; forced slots count. The authors' thresholds: .9 for Llama 3, .65 for Llama
 * 2, .8 for Mistral, .85 for Qwen. One pass of the last queries.
 * @throws KvError if `threshold` is not a share, or a number of positions not whole, or `last` above `recent`.
 */
export function simlayerkv({
  threshold = 0.9,
  sinks = 4,
  recent = 1024,
  last = 1,
}: SimlayerkvOptions = {}): ScoreAllocator<'simlayerkv'> {
  checkNumber('simlayerkv', 'threshold', threshold, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  checkNumber('simlayerkv', 'sinks', sinks, 'a whole number of positions', isCount);
  checkNumber('simlayerkv', 'recent', recent, 'a positive whole number of positions', isPositiveInteger);
  checkNumber('simlayerkv', 'last', last, 'a positive whole number of queries', isPositiveInteger);
  if (last > recent) throw new KvError('simlayerkv', `last must be at most recent, ${recent}, got ${last}`);
  return scoreAllocator(
    { name: 'simlayerkv', options: { threshold, sinks, recent, last }, sizes: true },
    [attentionWindow(last), positions],
    ({ ops, at, attention, positions: p, scores, budgets, forced }) => {
      const before = at.length - last,
        near = ops.mul(ops.atLeast(p, before - recent), ops.less(p, before));
      const looked = ops.reduce(
          'mean',
          ops.reduce('sum', ops.mul(attention, ops.max(ops.less(p, sinks), near)), 'slots'),
          'rows',
        ),
        lazy = ops.less(threshold === 1 ? 2 : threshold, looked); // [1, 1]
      const rows = budgets.shape[0],
        count = (x: Tensor): Tensor =>
          ops.reduce('sum', x.shape[0] > rows ? ops.groupRows('max', x, rows) : x, 'slots');
      const held = count(ops.fill(ops.add(scores, ops.mul(budgets, 0)), 1)),
        few = ops.where(ops.mul(ops.less(sinks + recent + last, held), lazy), sinks + recent - last, held);
      return { budgets: forced ? ops.max(few, count(forced)) : few };
    },
  );
}
