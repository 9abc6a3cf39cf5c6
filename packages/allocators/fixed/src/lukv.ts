import { KvError, scoreAllocator, sidecar } from '@kv/core';
import { sumOf } from '@kv/core/shared';
import { budgetsWithinBounds } from './budgets-within-bounds.ts';
import { readNpy } from './npy.ts';

/** Name of the file next to the model: shares removed, `[99, layers, KV heads]`, for ratios of 1 % to 99 %. */
export const BUDGET_CURVE_FILE = 'budget-curve.npy';

/** Share of its slots that each KV head of a layer loses, `[ratio][head]`. */
interface Curve {
  readonly heads: number;
  readonly layers: number;
  readonly lost: readonly (readonly number[])[];
}
const budgetCurve = sidecar({
  as: 'budgetCurve',
  piece: 'lukv',
  file: BUDGET_CURVE_FILE,
  of: 'a curve',
  make: 'generate_curve.sh of the LU-KV repository',
  read: (file): readonly Curve[] => {
    const {
      shape: [ratios = 0, layers = 0, heads = 0],
      data,
    } = readNpy(BUDGET_CURVE_FILE, file, 3);
    return Array.from({ length: layers }, (_, l) => ({
      heads,
      layers,
      lost: Array.from({ length: ratios }, (__, r) =>
        Array.from(data.subarray((r * layers + l) * heads, (r * layers + l + 1) * heads)),
      ),
    }));
  },
});

/**
 * Returns the slots of a layer's heads: floor of n · (1 - lost), and one more for the largest remainders until the
 * layer has the rounded sum. At least 1.
 */
function rounded(lost: readonly number[], n: number): number[] {
  const ideal = lost.map((x) => Math.min(1, Math.max(0, 1 - x)) * n),
    floors = ideal.map(Math.floor);
  const rest = Math.max(lost.length, Math.round(sumOf(ideal))) - sumOf(floors),
    order = ideal.map((x, g) => ({ g, left: x - floors[g] })).sort((a, b) => b.left - a.left || a.g - b.g);
  for (const { g } of order.slice(0, Math.max(0, rest))) floors[g]++;
  return floors.map((x) => Math.min(n, Math.max(1, x)));
}

/**
 * LU-KV: budgets of every layer and KV head by a curve calibrated for the model and the scorer, at the share of slots
 * to remove.
 *
 * @remarks arXiv:2602.08585, rounded as in kvpress: largest remainders within a layer, so the sum is the curve's, and
 * may miss the total. The share removed is 1 - budget / slots, to the nearest ratio of the curve. Its authors also keep
 * sinks and the newest slot: `mandatory(sinks=4,recent=1)`. Forced slots count. Reads `budget-curve.npy` next to the
 * model, as LU-KV publishes it.
 * @throws KvError in an event where the curve has other layers or heads.
 */
export const lukv = scoreAllocator(
  'lukv',
  {
    source: 'LU-KV, arXiv:2602.08585',
    says: 'Budgets of layers and heads by a curve that was calibrated for the model.',
    approximate: true,
    needs: [budgetCurve],
  },
  (ctx) => {
    const { kvHeads, layers, budget, slots } = ctx.at;
    const curve = ctx.budgetCurve;
    if (curve.heads !== kvHeads || curve.layers !== layers)
      throw new KvError(
        'lukv',
        `expected a curve of ${layers} layers with ${kvHeads} KV heads, got ${curve.layers} with ${curve.heads}`,
      );
    const ratio = 1 - budget / Math.max(1, slots);
    const ratios = curve.lost.length;
    const index = Math.min(ratios, Math.max(1, Math.round(ratio * (ratios + 1)))) - 1;
    const wanted = ratio > 0 && ratio < 1 ? rounded(curve.lost[index], slots) : new Array<number>(kvHeads).fill(budget);
    return { budgets: budgetsWithinBounds(ctx, wanted) };
  },
);
