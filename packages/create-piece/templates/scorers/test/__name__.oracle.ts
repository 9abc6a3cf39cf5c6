import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** |v_t| in float64: values `[G, n, d]` to scores `[G, n]`. */
export function oracle(values: NdArray<Float64Array>): NdArray<Float64Array> {
  const [heads = 0, slots = 0] = values.shape;
  const scores = ndarray(new Float64Array(heads * slots), [heads, slots]);
  for (let g = 0; g < heads; g++) for (let t = 0; t < slots; t++) scores.set(g, t, ops.norm2(values.pick(g, t)));
  return scores;
}
