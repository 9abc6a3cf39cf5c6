import { checkNumber, outputNorms } from '@kv/core';
import { shaper } from '@kv/core/old';
import type { Shaper } from '@kv/core';

export interface CriticalkvOptions {
  /** Share of the budget that the scores alone decide. @defaultValue 0.5 */
  readonly first?: number;
  /** Added to the scores before they are scaled. @defaultValue 1e-4 */
  readonly epsilon?: number;
}

/**
 * CriticalKV: the best ⌊first · B⌋ slots of a head by their scores stay; all others are scored anew, (s + epsilon)
 * times the size of what
 * their value adds to the layer's output, |v W_O|_1, mean over the head group.
 *
 * @remarks Feng et al. 2025, arXiv:2502.03805. Scores come out on KV rows `[G, n]`; slots already forced count as best.
 * B is
 * the head's budget as it stands: behind an allocator, that one's. The norms cost the layer's output product over every
 * slot.
 * @throws KvError if `first` is not a share of 0 .. 1 or `epsilon` negative.
 */
export function criticalkv({ first = 0.5, epsilon = 1e-4 }: CriticalkvOptions = {}): Shaper<'criticalkv'> {
  checkNumber('criticalkv', 'first', first, 'a share from 0 to 1', (x) => x >= 0 && x <= 1);
  checkNumber('criticalkv', 'epsilon', epsilon, 'a number of at least 0', (x) => x >= 0 && x < Infinity);
  return shaper(
    { name: 'criticalkv', options: { first, epsilon }, floor: (n, budget) => Math.min(n, Math.floor(first * budget)) },
    [outputNorms],
    ({ ops, at, scores, forced, budgets, outputNorms: size }) => {
      const onKvRows = (kind: 'mean' | 'max', x: typeof scores): typeof scores =>
        x.shape[0] > at.kvHeads ? ops.groupRows(kind, x, at.kvHeads) : x;
      const s = onKvRows('mean', scores),
        best = ops.select(s, ops.map('floor', ops.mul(budgets, first)), { forced: forced && onKvRows('max', forced) });
      return { scores: ops.mul(ops.add(s, epsilon), onKvRows('mean', size)), forced: ops.mark(best, s) };
    },
  );
}
