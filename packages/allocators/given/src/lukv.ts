import { besideModel, KvError } from '@kv/core';
import { scoreAllocator } from '@kv/core/old';
import type { ScoreAllocator } from '@kv/core';
import { budgetsOf } from './layer-budgets.ts';
import { readNpy } from './npy.ts';

/** Name of the file beside the model: shares removed, `[99, layers, KV heads]`, for ratios of 1 % to 99 %. */
export const BUDGET_CURVE_FILE = 'budget-curve.npy';

/** Share that each KV head of a layer loses, `[ratio][head]`. */
interface Curve {
  readonly heads: number;
  readonly layers: number;
  readonly lost: readonly (readonly number[])[];
}
const budgetCurve = besideModel({
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
 * Slots of the heads of a layer: floor of n · (1 - lost), and one more for the largest remainders until the layer has
 * the rounded sum. At least 1.
 */
function rounded(lost: readonly number[], n: number): number[] {
  const ideal = lost.map((x) => Math.min(1, Math.max(0, 1 - x)) * n),
    floors = ideal.map(Math.floor),
    sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);
  const rest = Math.max(lost.length, Math.round(sum(ideal))) - sum(floors),
    order = ideal.map((x, g) => ({ g, left: x - floors[g] })).sort((a, b) => b.left - a.left || a.g - b.g);
  for (const { g } of order.slice(0, Math.max(0, rest))) floors[g]++;
  return floors.map((x) => Math.min(n, Math.max(1, x)));
}

/**
 * LU-KV: budgets of every layer and KV head by a curve that was worked out for the model and the scorer, at the share
 * that is to go.
 *
 * @remarks arXiv:2602.08585, as kvpress rounds it: largest remainders within a layer, so the sum is the curve's, and
 * may miss the total. The share removed is 1 - budget / slots, to the nearest ratio of the curve. Its authors keep
 * sinks and the newest slot beside it: `mandatory(sinks=4,recent=1)`. Forced slots count. Reads `budget-curve.npy`, as
 * LU-KV publishes it, beside the model.
 * @throws KvError where the curve is of other layers or heads.
 */
export function lukv(): ScoreAllocator<'lukv'> {
  return scoreAllocator('lukv', [budgetCurve], (ctx) => {
    const {
      at,
      budgetCurve: { heads, layers, lost },
    } = ctx;
    if (heads !== at.kvHeads || layers !== at.layers)
      throw new KvError(
        'lukv',
        `expected a curve of ${at.layers} layers with ${at.kvHeads} KV heads, got ${layers} with ${heads}`,
      );
    const ratio = 1 - at.budget / Math.max(1, at.slots),
      index = Math.min(lost.length, Math.max(1, Math.round(ratio * (lost.length + 1)))) - 1;
    return {
      budgets: budgetsOf(
        ctx,
        ratio > 0 && ratio < 1 ? rounded(lost[index], at.slots) : new Array<number>(heads).fill(at.budget),
      ),
    };
  });
}
