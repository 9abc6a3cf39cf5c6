import { attentionWindow, count, positions, scoreAllocator, share, whole } from '@kv/core';

/**
 * SimLayerKV: a layer that attends mostly to its first and recent positions keeps only their number of slots, any other
 * layer everything.
 *
 * @remarks Zhang et al. 2024, arXiv:2410.13846, as in kvpress: a layer is lazy if its last queries give more than
 * `threshold` of their attention, mean over heads, to the first `sinks` positions and to the `recent` ones before them.
 * Over `streaming(sinks)` a lazy layer keeps sinks + recent - last slots by position, over another scorer its best.
 * Heads of at most sinks + recent + last slots keep all. Replaces any requested budgets; forced slots count. The
 * authors' thresholds: .9 for Llama 3, .65 for Llama 2, .8 for Mistral, .85 for Qwen. One pass of the last queries.
 */
export const simlayerkv = scoreAllocator(
  'simlayerkv',
  {
    source: 'Zhang et al. 2024, arXiv:2410.13846',
    says: 'Layers that look at little but sinks and recents keep only as many slots.',
    options: {
      threshold: share(0.9, 'A layer is lazy above this share of attention; at 1 none is.'),
      sinks: whole(4, 'positions', 'First positions.'),
      recent: count(1024, 'positions', "Recent positions, `last` of them the queries' own."),
      last: count(1, 'queries', 'Last queries whose attention is looked at.'),
    },
    check: ({ recent, last }) => last > recent && `last must be at most recent, ${recent}, got ${last}`,
    needs: ({ last }) => [attentionWindow(last), positions],
    choosesBudget: true,
  },
  ({ ops, at, attention, positions: p, scores, forced }, { threshold, sinks, recent, last }) => {
    const before = at.length - last;
    const near = ops.mul(ops.atLeast(p, before - recent), ops.less(p, before));
    const looked = ops.reduce('mean', ops.sum(ops.mul(attention, ops.max(ops.less(p, sinks), near))), 'rows'); // [1, 1]
    const lazy = ops.less(threshold === 1 ? 2 : threshold, looked);
    const held = ops.sum(ops.fill(scores, 1)); // [G, 1]
    const few = ops.where(ops.mul(ops.less(sinks + recent + last, held), lazy), sinks + recent - last, held);
    return { budgets: ops.max(few, ops.count(forced)) };
  },
);
