import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/** s_t - mean(s) of each row in float64: scores `[rows, n]` to scores `[rows, n]`. */
export function oracle(scores: NdArray<Float64Array>): NdArray<Float64Array> {
  const [rows = 0, slots = 0] = scores.shape;
  const centred = ndarray(Float64Array.from(scores.data), [rows, slots]);
  for (let r = 0; r < rows; r++) ops.subseq(centred.pick(r), ops.sum(scores.pick(r)) / slots);
  return centred;
}
