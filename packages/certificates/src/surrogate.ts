import { posteriorBound, quantisedBound } from './design.ts';
import { droppedMass } from './mass.ts';
import { spreads } from './tally.ts';
import type { AttentionRow } from './attention-row.ts';
import type { Spread } from './tally.ts';

/** Bounds on what a set chosen by estimated logits (of fewer channels, of quantised keys) drops. */
export interface Surrogate {
  /** Number of rows: queries of views that choose by scores. */
  readonly rows: number;
  /**
   * η, the largest error of a logit after the constant shift of the surrogate that makes it least; softmax ignores such
   * a shift.
   */
  readonly logitError: Spread;
  /** ε, the total variation between the weights and the surrogate's softmax, in which a learned sink has the same share. */
  readonly variation: Spread;
  /** δ, the mass that the view hides. */
  readonly dropped: Spread;
  /**
   * δ* + 2 η and δ* + 2 ε, δ* the least that a set with the same forced slots drops. Upper bounds of `dropped` in every
   * row.
   */
  readonly byLogits: Spread;
  /** δ* + 2 ε. */
  readonly byVariation: Spread;
}

/** Logarithm of the smallest positive f32, 2^-149. */
const LEAST = Math.log(2 ** -149);

/** Returns the least mass that a set of this size with these forced slots drops. */
function leastWith(weights: ArrayLike<number>, sink: number, forced: readonly number[], size: number): number {
  const fixed = new Set(forced),
    rest = Array.from({ length: weights.length }, (_, i) => i)
      .filter((i) => !fixed.has(i))
      .sort((a, b) => weights[b] - weights[a] || a - b);
  return droppedMass(weights, [...fixed, ...rest.slice(0, Math.max(0, size - fixed.size))], sink);
}

/** Collects views that choose by scores, row by row, and judges the scores as estimates of the logits. */
export function surrogates(): { add(row: AttentionRow): void; take(): Surrogate | undefined } {
  const all = spreads(['logitError', 'variation', 'dropped', 'byLogits', 'byVariation']);
  return {
    add({ weights, sink = 0, kept, by }) {
      if (!by) return;
      const { scores, forced } = by;
      let [low, high, top, whole, mass, epsilon] = [Infinity, -Infinity, -Infinity, sink, 0, 0];
      for (let i = 0; i < weights.length; i++) {
        const off = Math.log(weights[i]) - scores[i]; // the logit up to a constant, minus its estimate
        if (weights[i] > 0) [low, high] = [Math.min(low, off), Math.max(high, off)];
        [top, whole] = [Math.max(top, scores[i]), whole + weights[i]];
      }
      let eta = (high - low) / 2;
      for (let i = 0; i < weights.length; i++)
        // a logit below LEAST has weight 0 in f32
        if (weights[i] === 0) eta = Math.max(eta, scores[i] + (high + low) / 2 - LEAST);
      for (let i = 0; i < weights.length; i++) mass += Math.exp(scores[i] - top);
      for (let i = 0; i < weights.length; i++)
        epsilon += Math.abs(weights[i] / whole - ((1 - sink / whole) * Math.exp(scores[i] - top)) / mass) / 2;
      const best = leastWith(weights, sink, forced, kept.length);
      all.add({
        logitError: eta,
        variation: epsilon,
        dropped: droppedMass(weights, kept, sink),
        byLogits: quantisedBound(best, eta),
        byVariation: posteriorBound(best, epsilon),
      });
    },
    take: all.take,
  };
}
