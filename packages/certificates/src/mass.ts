import { KvError } from '@kv/core';

type Numbers = ArrayLike<number>;

function kept(weights: Numbers, set: readonly number[]): number[] {
  const slots = [...new Set(set)],
    bad = slots.find((i) => !Number.isInteger(i) || i < 0 || i >= weights.length);
  if (bad !== undefined)
    throw new KvError('certificates', `expected kept slots from 0 to ${weights.length - 1}, got ${bad}`);
  return slots;
}
function total(weights: Numbers): number {
  let sum = 0;
  for (let i = 0; i < weights.length; i++) {
    if (!(weights[i] >= 0 && Number.isFinite(weights[i])))
      throw new KvError('certificates', `expected finite weights of at least 0, got ${weights[i]} in slot ${i}`);
    sum += weights[i];
  }
  if (sum === 0) throw new KvError('certificates', 'expected weights with some mass, got none');
  return sum;
}

/**
 * Dropped mass δ: the share of the weights outside the kept set.
 *
 * @remarks PrHS, Lemma 1: exactly the total variation between the weights and those of the kept slots scaled up to sum
 * to 1, a learned sink being one of them.
 * @param set kept slots
 * @param sink weight of a learned sink, in addition to those of the slots
 * @throws KvError if a weight is negative or not finite, all are 0, or a kept slot does not exist.
 */
export function droppedMass(weights: Numbers, set: readonly number[], sink = 0): number {
  const sum = total(weights) + sink;
  return Math.max(0, 1 - kept(weights, set).reduce((s, i) => s + weights[i], sink) / sum);
}

/** Returns the `size` slots of most weight, ascending; ties to the lower slot. */
export function heaviest(weights: Numbers, size: number): number[] {
  return Array.from({ length: weights.length }, (_, i) => i)
    .sort((a, b) => weights[b] - weights[a] || a - b)
    .slice(0, Math.max(0, size))
    .sort((a, b) => a - b);
}

/** What follows from one query's weights and kept set. */
export interface Certificate {
  /** Mass outside the kept set, δ: the total variation it costs. */
  readonly dropped: number;
  /** Least mass that a set of this size can drop, δ*. */
  readonly best: number;
  /** Share of the kept slots that are also in the best set of this size. */
  readonly overlap: number;
  /** KL divergence of the kept distribution from the full one, ln(1 / (1 - δ)), in nats. */
  readonly divergence: number;
  /** Largest possible difference of the entropies, h_b(δ) + δ ln(n - 1), in nats; a learned sink counts among the n. */
  readonly entropy: number;
  /** Bound on the loss of mutual information, 2 (h_b(δ) + δ ln n), in nats. Informative while δ <= n / (n + 1). */
  readonly information: number;
}

/** Binary entropy in nats. */
export const binaryEntropy = (p: number): number =>
  p <= 0 || p >= 1 ? 0 : -p * Math.log(p) - (1 - p) * Math.log(1 - p);
/** g(δ) = 2 (h_b(δ) + δ ln n). PrHS, eq. 4. */
export const informationBound = (dropped: number, n: number): number =>
  2 * (binaryEntropy(dropped) + dropped * Math.log(n));

/**
 * Returns the certificate of one query's weights and kept slots.
 *
 * @param sink weight of a learned sink, in addition to those of the slots
 * @throws KvError as `droppedMass` does.
 */
export function certificate(weights: Numbers, set: readonly number[], sink = 0): Certificate {
  const slots = kept(weights, set),
    n = weights.length + (sink > 0 ? 1 : 0), // outcomes of the distribution
    dropped = droppedMass(weights, slots, sink),
    best = heaviest(weights, slots.length),
    wanted = new Set(best);
  return {
    dropped,
    best: droppedMass(weights, best, sink),
    overlap: slots.length === 0 ? 1 : slots.filter((i) => wanted.has(i)).length / slots.length,
    divergence: -Math.log(1 - dropped),
    entropy: binaryEntropy(dropped) + (n > 1 ? dropped * Math.log(n - 1) : 0),
    information: informationBound(dropped, n),
  };
}

/**
 * Returns ρ = retrievals / (H L steps), the share of possible retrievals that ran: never below 1 / s for blocks of s
 * steps.
 */
export const retrievalRatio = (
  retrievals: number,
  { heads, layers, steps }: { readonly heads: number; readonly layers: number; readonly steps: number },
): number => retrievals / (heads * layers * steps);
