import { selector } from '@kv/core';
import { placeInUnit } from '@kv/core/shared';

/**
 * Quotas: every unit keeps its own best slots, in proportion to its size.
 *
 * @remarks kvpress' ChunkPress over `eachChunk` and `chunks`, after Finch, for any unit; without units it is top-k. The
 * k-th best of a unit of m slots has the rank k / m, and the B slots of lowest rank are kept: each unit keeps at least
 * ⌊B m / n⌋, and the rest of the budget goes to the units that come next by rank. Forced slots come first in their
 * unit, banned ones do not count. Ties to the lower slot. O(n m).
 */
export const quota = selector(
  'quota',
  {
    source: 'Corallo and Papotti 2024, TACL, doi:10.1162/tacl_a_00716',
    says: 'Every unit keeps its best slots, in proportion to its size.',
  },
  ({ ops, scores, budgets, units, active, forced, banned }) => {
    if (!units) return ops.select(scores, budgets, { forced, banned, active });
    const { of, count } = units;
    const s = ops.broadcast(scores, budgets.shape[0]);
    const place = ops.kernel(placeInUnit, { scores: ops.masked(s, { forced, banned }), unitOf: of });
    const sizes = ops.groupSlots('sum', ops.sub(ops.fill(s, 1), banned), of, count);
    const worth = ops.div(ops.add(place, 1), ops.max(1, ops.take(sizes, of)));
    return ops.select(ops.mul(worth, -1), budgets, { forced, banned, active });
  },
);
