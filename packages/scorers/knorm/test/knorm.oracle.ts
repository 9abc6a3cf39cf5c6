import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** -|k|_2 in float64: keys `[G, n, d]` to scores `[G, n]`. */
export function knormOracle(keys: NdArray<Float64Array>): NdArray<Float64Array> {
  const [heads = 0, slots = 0] = keys.shape;
  const scores = ndarray(new Float64Array(heads * slots), [heads, slots]);
  for (let g = 0; g < heads; g++) for (let i = 0; i < slots; i++) scores.set(g, i, ops.norm2(keys.pick(g, i, null)));
  ops.negeq(scores);
  return scores;
}
