import { as, attentionLast, count, number, onCompact, onStep, positions, state, values, whole } from '@kv/core';
import { uniformHash } from '@kv/core/shared';
import { foldAhead, shareAhead } from './ahead.ts';

/** Attention received from the tokens generated so far, mean of a head group, `[G, n]`. */
const received = as('received', state('cam', { kind: 'slot', rows: 'kv' }));
const receiving = onStep('cam', { needs: [attentionLast, received] }, ({ ops, attention, received: before }) => ({
  received: ops.add(before, ops.groupRows('mean', attention, before.shape[0])),
}));

/**
 * CaM: divides the value of an evicted slot among the kept slots that follow it, if a coin falls below the ratio of the
 * attention that it received to the mean of theirs.
 *
 * @remarks Zhang et al. 2024 (CaM, ICML), folding many slots at once as kvpress' CAMPress: p = min(1, A_e / mean A over
 * the next `slots` kept ones), with A the attention received from the tokens generated so far, mean of a head group.
 * Where the coin, a hash of seed, layer, KV head and position, is below p, each of these slots gets v_e / their number.
 * Keys stay. Folds nothing before a token was generated.
 */
export const cam = onCompact(
  'cam',
  {
    source: 'CaM, Zhang et al. 2024, ICML',
    says: 'Divides the value of an evicted slot among the kept ones after it.',
    options: {
      slots: count(32, 'slots', 'Kept slots after an evicted one that share its value.'),
      most: whole(
        512,
        'slots',
        'Evicted slots, those of the highest scores, that may be folded at an event: the tokens between two events.',
      ),
      seed: number(0, 'Of the coins.', { least: 0, below: 2 ** 32, whole: true, want: 'a whole number below 2^32' }),
    },
    needs: [values, positions, received],
    hooks: () => [receiving()],
  },
  ({ ops, at, values: v, positions: p, received: a, scores, kept }, { slots, most, seed }) => {
    const rows = a.shape[0];
    const stays = ops.mark(kept, a);
    const none = ops.fill(a, 0); // [G, n], as long as the cache's rows
    const reduced = scores && ops.reduceRows('mean', scores, rows);
    const s = reduced ? ops.add(reduced, none) : none;
    const merges = ops.top(s, ops.from({ data: new Float32Array(rows).fill(most), shape: [rows, 1] }), {
      banned: stays,
    });
    const coin = ops.kernel(uniformHash, { positions: p }, { seed, layer: at.layer });
    const share = ops.kernel(shareAhead, { received: a, stays, merges, coin }, { slots });
    return { values: ops.kernel(foldAhead, { values: v, stays, share }, { slots }) };
  },
);
