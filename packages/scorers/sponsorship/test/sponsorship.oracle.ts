import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/**
 * V_j of every position 0 .. N - 1 in float64, anchor by anchor: `budgets[i]` spread over the `reach` positions after
 * i, 0.8 times as much at each.
 */
export function vouchersOracle(budgets: readonly number[], reach: number): NdArray<Float64Array> {
  const n = budgets.length,
    v = ndarray(new Float64Array(n), [n]);
  budgets.forEach((budget, i) => {
    const length = Math.min(reach, n - 1 - i);
    if (length <= 0) return;
    const span = ndarray(
      Float64Array.from({ length }, (_, k) => 0.8 ** (k + 1)),
      [length],
    );
    ops.mulseq(span, budget);
    ops.addeq(v.lo(i + 1).hi(length), span);
  });
  return v;
}
