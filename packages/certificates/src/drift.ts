import { KvError } from '@kv/core';
import { countBelow } from '@kv/core/shared';

type Numbers = ArrayLike<number>;

/**
 * Returns the centroid of attention along the sequence, c = Σ A_j p_j / Σ A_j. PrHS, Theorem 1.
 *
 * @param weights of each slot, finite and at least 0
 * @param positions of each slot
 * @throws KvError if there are not as many positions as weights, or no weight is above 0.
 */
export function centroid(weights: Numbers, positions: Numbers): number {
  let sum = 0,
    total = 0;
  for (let i = 0; i < weights.length; i++) {
    sum += weights[i];
    total += weights[i] * positions[i];
  }
  if (positions.length !== weights.length || !(sum > 0) || !Number.isFinite(total))
    throw new KvError(
      'centroid',
      `expected finite weights with some mass and a position for each, got ${weights.length} weights that sum to ${sum} and ${positions.length} positions`,
    );
  return total / sum;
}

interface Queries {
  /** Largest less smallest position. */
  readonly span: number;
  /** Norm of the largest key. */
  readonly keyNorm: number;
  readonly dim: number;
}
/**
 * Bound on how far the centroid of attention moves from one query to another over the same keys, in positions: span
 * (K_max / sqrt(d)) |q' - q|, at most the span.
 *
 * @remarks PrHS, Theorem 1, for queries of any length: the weights' total variation is at most half of that factor.
 * Theorem 6 (eq. 41) prints twice as much.
 */
export const driftBound = ({ span, keyNorm, dim, distance }: Queries & { readonly distance: number }): number =>
  span * Math.min(1, (keyNorm / Math.sqrt(dim)) * distance);
/**
 * Returns s(τ), the least whole radius that covers the drift of the centroid between queries of length 1 whose cosine is
 * at least τ: 2 span (K_max / sqrt(d)) sqrt(2 - 2 τ), rounded up, at most the span. PrHS, appendix D4.
 */
export const coveringRadius = ({ span, keyNorm, dim, cosine }: Queries & { readonly cosine: number }): number =>
  Math.min(span, Math.ceil(2 * span * (keyNorm / Math.sqrt(dim)) * Math.sqrt(Math.max(0, 2 - 2 * cosine))));

/**
 * Returns ε_drift, what dilation by too small a radius r < s(τ) may lose: the share of the reference query's weights at
 * positions within `covering` of one of the strongest, but not within `radius`. PrHS, Theorem 2: add it to the bound.
 *
 * @param weights of the reference query
 * @param positions of each slot
 * @param strongest positions whose neighbours a reused set takes along
 * @param radius r
 * @param covering s(τ), of `coveringRadius`
 */
export function driftLoss(
  weights: Numbers,
  positions: Numbers,
  {
    strongest,
    radius,
    covering,
  }: { readonly strongest: readonly number[]; readonly radius: number; readonly covering: number },
): number {
  const marks = Uint32Array.from(strongest).sort();
  let lost = 0,
    total = 0;
  for (let i = 0; i < weights.length; i++) {
    const away = nearest(marks, positions[i]);
    total += weights[i];
    if (away > radius && away <= covering) lost += weights[i];
  }
  return total > 0 ? lost / total : 0;
}
/** Returns the distance of a position to the nearest of ascending ones. */
function nearest(sorted: Uint32Array, position: number): number {
  const next = countBelow(sorted, position);
  return Math.min(position - (sorted[next - 1] ?? -Infinity), (sorted[next] ?? Infinity) - position);
}
