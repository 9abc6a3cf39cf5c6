import { positions, scoreTransform, share } from '@kv/core';

/**
 * Uniform coverage: a share of the budget goes to evenly spaced positions, whatever their scores.
 *
 * @remarks CrystalCache, section 8, F3, which proposes it and has no experiment. Forces ⌊share B⌋ of the positions seen
 * so far, as far as they are still held. Use with `branchDissolution({ protect: 'slots' })`; otherwise whole trunks
 * would be protected.
 */
export const coverage = scoreTransform(
  'coverage',
  {
    source: 'CrystalCache, section 8',
    says: 'Forces evenly spaced positions with a share of the budget.',
    options: { share: share(0.1, 'Share of the budget.') },
    needs: [positions],
    minSlots: (o, slots, budget) => Math.min(slots, Math.floor(budget * o.share)),
  },
  ({ ops, at, scores, positions: p }, o) => {
    const step = Math.min(1, Math.floor(at.budget * o.share) / at.length);
    const before = (i: number): number => Math.floor(i * step + 1e-9);
    const table = Float32Array.from({ length: at.length }, (_, i) => before(i + 1) - before(i));
    return { scores, forced: ops.take(ops.from({ data: table, shape: [1, at.length] }), p) };
  },
);
