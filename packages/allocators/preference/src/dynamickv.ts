import { checkNumber, isCount } from '@kv/core';
import { modelAllocator } from '@kv/core/old';
import type { ScoreAllocator, Tensor } from '@kv/core';
import { borderOfBest } from './search.ts';
import { layerBudgets } from './share-out.ts';

export interface DynamickvOptions {
  /** Slots of the scorer's window, which every layer keeps. @defaultValue 32 */
  readonly window?: number;
  /** No layer gets more than this many times the mean budget before the window. @defaultValue 10 */
  readonly most?: number;
}

/**
 * DynamicKV: a layer gets slots by how many of its scores are among the best of the whole model.
 *
 * @remarks Zhou et al. 2024, arXiv:2412.14838, as its last update sets it, with an exact sum; the authors update every
 * fourth layer while
 * prefill passes. Scores before the window, mean over the head group; the border of the best is found to 2^-40 of their
 * range. All KV heads of a layer
 * get the same, where they hold so many. Wants scores of at least 0.
 * @throws KvError if `window` is not a whole number or `most` not at least 1.
 */
export function dynamickv({ window = 32, most = 10 }: DynamickvOptions = {}): ScoreAllocator<'dynamickv'> {
  checkNumber('dynamickv', 'window', window, 'a whole number of slots', isCount);
  checkNumber('dynamickv', 'most', most, 'a number of at least 1', (x) => x >= 1);
  return modelAllocator({ name: 'dynamickv', options: { window, most } }, [], (layers) => {
    const {
      ops,
      at: { budget },
    } = layers[0];
    const open = layers.map(({ at, scores, forced, budgets }) => {
      const s = ops.add(
          scores.shape[0] > at.kvHeads ? ops.groupRows('mean', scores, at.kvHeads) : scores,
          ops.mul(budgets, 0),
        ),
        out = forced ?? ops.lastSlots(s, window);
      return ops.where(out.shape[0] > at.kvHeads ? ops.groupRows('max', out, at.kvHeads) : out, -1, s);
    });
    const sum = (x: Tensor): Tensor => ops.reduce('sum', ops.reduce('sum', x, 'slots'), 'rows'),
      all = (of: readonly Tensor[]): Tensor => of.reduce((a, b) => ops.add(a, b));
    const want = all(layers.map(({ budgets }) => ops.reduce('sum', ops.max(0, ops.sub(budgets, window)), 'rows')));
    const top = open
        .map((s) => ops.reduce('max', ops.reduce('max', s, 'slots'), 'rows'))
        .reduce((a, b) => ops.max(a, b)),
      [low] = borderOfBest(ops, open, want, ops.mul(want, 0), top);
    return layerBudgets(
      layers,
      open.map((s) => sum(ops.atLeast(s, low))),
      window,
      window + Math.floor(most * Math.max(1, budget - window)),
    );
  });
}
