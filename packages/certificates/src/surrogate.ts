import { posteriorBound, quantisedBound } from './design.ts';
import { droppedMass } from './mass.ts';
import { running } from './tally.ts';
import type { AttentionRow } from './seen-row.ts';
import type { Spread } from './tally.ts';

/** What a set chosen by a surrogate of the logits may drop: of channels, of quantised keys. */
export interface Surrogate {
  readonly rows: number;
  /**
   * η, the largest error of a logit, once the surrogate is shifted so that it is least; softmax does not see a shift.
   */
  readonly logitError: Spread;
  /** ε, the total variation between the weights and the surrogate's softmax. */
  readonly variation: Spread;
  readonly dropped: Spread;
  /** δ* + 2 η and δ* + 2 ε, δ* being the least that a set with the same forced slots drops: no row drops more. */
  readonly byLogits: Spread;
  readonly byVariation: Spread;
}

/** Logarithm of the least weight above 0 in f32. */
const LEAST = Math.log(2 ** -149);

/** The least that a set of this size with these slots in it drops. */
function leastWith(weights: ArrayLike<number>, forced: readonly number[], size: number): number {
  const fixed = new Set(forced),
    rest = Array.from({ length: weights.length }, (_, i) => i)
      .filter((i) => !fixed.has(i))
      .sort((a, b) => weights[b] - weights[a] || a - b);
  return droppedMass(weights, [...fixed, ...rest.slice(0, Math.max(0, size - fixed.size))]);
}

/** Judges views that choose by scores as surrogates of logits, row by row. */
export function surrogates(): { add(row: AttentionRow): void; take(): Surrogate | undefined } {
  const all = {
    logitError: running(),
    variation: running(),
    dropped: running(),
    byLogits: running(),
    byVariation: running(),
  };
  let rows = 0;
  return {
    add({ weights, kept, by }) {
      if (!by) return;
      const { scores, forced } = by;
      let [low, high, top, whole, mass, epsilon] = [Infinity, -Infinity, -Infinity, 0, 0, 0];
      for (let i = 0; i < weights.length; i++) {
        const off = Math.log(weights[i]) - scores[i]; // the logit, but for what all slots share, less its estimate
        if (weights[i] > 0) [low, high] = [Math.min(low, off), Math.max(high, off)];
        [top, whole] = [Math.max(top, scores[i]), whole + weights[i]];
      }
      let eta = (high - low) / 2;
      for (let i = 0; i < weights.length; i++)
        // any logit below LEAST weighs nothing
        if (weights[i] === 0) eta = Math.max(eta, scores[i] + (high + low) / 2 - LEAST);
      for (let i = 0; i < weights.length; i++) mass += Math.exp(scores[i] - top);
      for (let i = 0; i < weights.length; i++)
        epsilon += Math.abs(weights[i] / whole - Math.exp(scores[i] - top) / mass) / 2;
      const best = leastWith(weights, forced, kept.length);
      all.logitError.add(eta);
      all.variation.add(epsilon);
      all.dropped.add(droppedMass(weights, kept));
      all.byLogits.add(quantisedBound(best, eta));
      all.byVariation.add(posteriorBound(best, epsilon));
      rows++;
    },
    take: () =>
      rows === 0
        ? undefined
        : {
            rows,
            logitError: all.logitError.take(),
            variation: all.variation.take(),
            dropped: all.dropped.take(),
            byLogits: all.byLogits.take(),
            byVariation: all.byVariation.take(),
          },
  };
}
