import ndarray from 'ndarray';
import type { NdArray } from 'ndarray';
import ops from 'ndarray-ops';

type Row = NdArray<Float64Array>;
const row = (x: readonly number[]): Row => ndarray(Float64Array.from(x), [x.length]);
/** Weights as a distribution, and that of the kept slots alone. */
function distributions(weights: readonly number[], kept: readonly number[]): { whole: Row; part: Row } {
  const whole = row(weights),
    part = row(weights.map((w, i) => (kept.includes(i) ? w : 0)));
  ops.divseq(whole, ops.sum(whole));
  ops.divseq(part, ops.sum(part));
  return { whole, part };
}
/** Half the L1 distance. */
export function totalVariation(weights: readonly number[], kept: readonly number[]): number {
  const { whole, part } = distributions(weights, kept);
  ops.subeq(part, whole);
  return ops.norm1(part) / 2;
}
/** KL(kept ‖ whole). */
export function divergence(weights: readonly number[], kept: readonly number[]): number {
  const { whole, part } = distributions(weights, kept);
  return weights.reduce((s, _, i) => s + (part.get(i) > 0 ? part.get(i) * Math.log(part.get(i) / whole.get(i)) : 0), 0);
}
export function entropyGap(weights: readonly number[], kept: readonly number[]): number {
  const { whole, part } = distributions(weights, kept),
    entropy = (p: Row): number =>
      -weights.reduce((s, _, i) => s + (p.get(i) > 0 ? p.get(i) * Math.log(p.get(i)) : 0), 0);
  return Math.abs(entropy(whole) - entropy(part));
}
/** Returns the least mass that any set of `size` slots drops, over all sets. */
export function leastDropped(weights: readonly number[], size: number): number {
  const total = weights.reduce((a, b) => a + b, 0);
  return Array.from({ length: 2 ** weights.length }, (_, bits) => weights.map((_w, i) => (bits >> i) & 1))
    .filter((set) => set.reduce((a, b) => a + b, 0) === size)
    .reduce((best, set) => Math.min(best, weights.reduce((s, w, i) => s + (set[i] ? 0 : w), 0) / total), 1);
}
/** Softmax of inner products with the rows of `keys` over sqrt(d). */
export function attention(query: readonly number[], keys: readonly (readonly number[])[]): Row {
  const out = row(keys.map((k) => k.reduce((s, x, c) => s + x * query[c], 0) / Math.sqrt(query.length)));
  ops.subseq(out, ops.sup(out));
  ops.expeq(out);
  ops.divseq(out, ops.sum(out));
  return out;
}
