import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

export type Vector = NdArray<Float64Array>;
const inner = (a: Vector, b: Vector): number => {
  const p = ndarray(new Float64Array(a.shape[0]), a.shape as number[]);
  ops.mul(p, a, b);
  return ops.sum(p);
};
const cosine = (a: Vector, b: Vector): number => inner(a, b) / Math.max(ops.norm2(a) * ops.norm2(b), 1e-24);

/** Values of one head after merging, by slot; evicted ones keep theirs. */
export function mergeOracle(
  keys: readonly Vector[],
  values: readonly Vector[],
  kept: readonly number[],
  threshold: number,
): Vector[] {
  const sums = values.map((v) => ndarray(v.data.slice(), v.shape as number[])),
    mass = values.map(() => 1);
  keys.forEach((k, e) => {
    if (kept.includes(e) || kept.length === 0) return;
    const to = kept.reduce((best, i) => (cosine(k, keys[i]) > cosine(k, keys[best]) ? i : best)),
      near = Math.max(0, cosine(k, keys[to]));
    if (near < threshold) return;
    const both = ops.norm2(values[e]) + ops.norm2(values[to]),
      w = both === 0 ? 0 : (near * ops.norm2(values[e])) / both,
      part = ndarray(values[e].data.slice(), values[e].shape as number[]);
    ops.mulseq(part, w);
    ops.addeq(sums[to], part);
    mass[to] += w;
  });
  sums.forEach((s, i) => ops.mulseq(s, 1 / mass[i]));
  return sums;
}
