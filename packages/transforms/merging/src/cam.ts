import {
  as,
  attentionLast,
  checkNumber,
  isCount,
  isPositiveInteger,
  positions,
  state,
  uniformHash,
  values,
} from '@kv/core';
import { onCompact, onStep } from '@kv/core/old';
import type { Hooked } from '@kv/core';
import { foldAhead, shareAhead } from './ahead.ts';

export interface CamOptions {
  /** Kept slots behind an evicted one that share its value. @defaultValue 32 */
  readonly slots?: number;
  /**
   * Evicted slots, those of the highest scores, that may be folded at an event: the tokens between two events.
   * @defaultValue 512
   */
  readonly most?: number;
  /** Of the coins. @defaultValue 0 */
  readonly seed?: number;
}

/**
 * CaM: the value of an evicted slot is divided among the kept slots that follow it, by a coin whose chance is the
 * attention that it received against the mean of theirs.
 *
 * @remarks Zhang et al. 2024 (CaM, ICML), as kvpress' CAMPress folds many slots at once: p = min(1, A_e / mean A over
 * the next `slots` kept ones), A the attention received from the tokens generated so far, mean of a head group.
 * Where the coin, the hash of seed, layer, KV head and position, is below p, each of them gets v_e / their number. Keys
 * stay. Nothing is folded before a token was generated.
 * @throws KvError if `slots` is not a positive whole number, or `most` or `seed` not a whole one.
 */
export function cam({ slots = 32, most = 512, seed = 0 }: CamOptions = {}): Hooked<'cam'> {
  checkNumber('cam', 'slots', slots, 'a positive whole number of slots', isPositiveInteger);
  checkNumber('cam', 'most', most, 'a whole number of slots', isCount);
  checkNumber('cam', 'seed', seed, 'a whole number below 2^32', (x) => isCount(x) && x < 2 ** 32);
  const options = { slots, most, seed: seed === 0 ? undefined : seed },
    received = as('received', state('cam', { kind: 'slot', rows: 'kv' }));
  const fold = onCompact(
    { name: 'cam', options },
    [values, positions, received],
    ({ ops, at, values: v, positions: p, received: a, scores, kept }) => {
      const stays = ops.mark(kept, a),
        rows = a.shape[0],
        zero = ops.fill(a, 0),
        s =
          scores === undefined
            ? zero
            : ops.add(scores.shape[0] > rows ? ops.groupRows('mean', scores, rows) : scores, zero);
      const merges = ops.mark(
        ops.select(s, ops.from({ data: new Float32Array(rows).fill(most), shape: [rows, 1] }), { banned: stays }),
        a,
      );
      const share = ops.kernel(
        shareAhead,
        { received: a, stays, merges, coin: ops.kernel(uniformHash, { positions: p }, { seed, layer: at.layer }) },
        { slots },
      );
      return { values: ops.kernel(foldAhead, { values: v, stays, share }, { slots }) };
    },
  );
  const receiving = onStep(
    { name: 'cam', options },
    [attentionLast, received],
    ({ ops, attention, received: before }) => ({
      received: ops.add(before, ops.groupRows('mean', attention, before.shape[0])),
    }),
  );
  return { ...fold, atoms: [...fold.atoms, ...receiving.atoms] };
}
