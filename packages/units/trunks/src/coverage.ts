import { checkNumber, positions } from '@kv/core';
import { shaper } from '@kv/core/old';
import type { Shaper } from '@kv/core';

/**
 * Uniform coverage: a share of the budget goes to evenly spaced positions, whatever their scores.
 *
 * @remarks CrystalCache, section 8, F3, which proposes it and has no experiment. Forces ⌊share B⌋ of the positions seen
 * so far, those that are still held; beside
 * `branchDissolution({ protect: 'slots' })`, or whole trunks would be protected.
 * @throws KvError if `share` is outside [0, 1].
 */
export function coverage({
  share = 0.1,
}: {
  /** @defaultValue 0.1 */ readonly share?: number;
} = {}): Shaper<'coverage'> {
  checkNumber('coverage', 'share', share, 'a number from 0 to 1', (x) => x >= 0 && x <= 1);
  const slots = (budget: number): number => Math.floor(budget * share);
  return shaper(
    { name: 'coverage', options: { share }, floor: (n, budget) => Math.min(n, slots(budget)) },
    [positions],
    ({ ops, at, scores, positions: p }) => {
      const step = Math.min(1, slots(at.budget) / at.length),
        table = Float32Array.from(
          { length: at.length },
          (_, i) => Math.floor((i + 1) * step + 1e-9) - Math.floor(i * step + 1e-9),
        );
      return { scores, forced: ops.take(ops.from({ data: table, shape: [1, at.length] }), p) };
    },
  );
}
