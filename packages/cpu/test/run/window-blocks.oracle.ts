import type { NdArray } from 'ndarray';
import nops from 'ndarray-ops';
import ndarray from 'ndarray';

/** Attention of query i of the last w, by definition, over one KV head's valid slots: uniform where it sees none. */
export function attentionRow(
  queries: NdArray,
  keys: NdArray,
  positions: readonly number[],
  length: number,
  i: number,
): number[] {
  const [w, d] = queries.shape as [number, number],
    product = ndarray(new Float64Array(d), [d]);
  const logits = positions.map((p, j) => {
    nops.mul(product, queries.pick(i, null), keys.pick(j, null));
    return p <= length - w + i ? nops.sum(product) / Math.sqrt(d) : -Infinity;
  });
  const top = Math.max(...logits),
    weights = logits.map((x) => (top === -Infinity ? 1 : Math.exp(x - top))),
    mass = weights.reduce((a, b) => a + b, 0);
  return weights.map((x) => x / mass);
}
