import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';

/** For every slot of every KV head: the mean of x over all rows whose KV head still holds the slot's position. */
export function layerMean(x: NdArray, positions: NdArray, lengths: readonly number[]): NdArray {
  const [heads, slots] = positions.shape as [number, number],
    group = x.shape[0] / heads,
    out = ndarray(new Float64Array(heads * slots), [heads, slots]);
  for (let g = 0; g < heads; g++)
    for (let i = 0; i < lengths[g]; i++) {
      const found: number[] = [];
      for (let r = 0; r < x.shape[0]; r++)
        for (let j = 0; j < lengths[Math.floor(r / group)]; j++)
          if (positions.get(Math.floor(r / group), j) === positions.get(g, i)) found.push(x.get(r, j));
      out.set(g, i, found.reduce((a, b) => a + b) / found.length);
    }
  return out;
}
