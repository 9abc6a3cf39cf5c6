import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** One row: weights, and a vector of each slot. */
export interface Site {
  readonly weights: readonly number[];
  readonly vectors: readonly (readonly number[])[];
}

/** max(0, cos(a, b)) in float64; 0 of a zero vector. */
function likeness(a: readonly number[], b: readonly number[]): number {
  const [x, y] = [a, b].map((v) => ndarray(Float64Array.from(v), [v.length]));
  const lengths = ops.norm2(x) * ops.norm2(y);
  if (lengths === 0) return 0;
  ops.muleq(x, y);
  return Math.max(0, ops.sum(x) / lengths);
}

/** f(S) = Σ_i w_i max over j in S of max(0, cos(x_i, x_j)), by its definition. */
export const covered = ({ weights, vectors }: Site, kept: readonly number[]): number =>
  weights.reduce((sum, w, i) => sum + w * Math.max(0, ...kept.map((j) => likeness(vectors[i], vectors[j]))), 0);

/** Plain greedy: evaluates every set from scratch; `forced` slots first, `banned` ones never. In the order of the picks. */
export function greedyOracle(
  site: Site,
  budget: number,
  forced: readonly number[] = [],
  banned: readonly number[] = [],
): number[] {
  const picks = [...forced];
  const left = site.weights.flatMap((_, i) => (forced.includes(i) || banned.includes(i) ? [] : [i]));
  while (picks.length < budget && left.length > 0) {
    const worth = left.map((j) => covered(site, [...picks, j]));
    picks.push(...left.splice(worth.indexOf(Math.max(...worth)), 1));
  }
  return picks;
}

/** The best set of `size` slots there is, by trying them all. */
export function bestSet(site: Site, size: number): number[] {
  const sets = (from: number, left: number): number[][] =>
    left === 0
      ? [[]]
      : site.weights
          .map((_, i) => i)
          .slice(from)
          .flatMap((i) => sets(i + 1, left - 1).map((rest) => [i, ...rest]));
  return sets(0, size).reduce((best, set) => (covered(site, set) > covered(site, best) ? set : best));
}
