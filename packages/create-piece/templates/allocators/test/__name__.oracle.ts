import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

/**
 * Real-valued shares in float64 of `mean` slots a layer on average, rising on a line from half of it to one and a half.
 */
export function oracle(mean: number, layers: number): NdArray<Float64Array> {
  const shares = ndarray(
    Float64Array.from({ length: layers }, (_, layer) => layer),
    [layers],
  );
  ops.mulseq(shares, mean / (layers - 1));
  ops.addseq(shares, mean / 2);
  return shares;
}
