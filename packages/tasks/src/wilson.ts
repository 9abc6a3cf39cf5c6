/** Two-sided standard normal quantiles. */
const Z = { 0.9: 1.6448536269514722, 0.95: 1.959963984540054, 0.99: 2.5758293035489004 } as const;
/** Confidence level of an interval. */
export type Confidence = keyof typeof Z;

/** Confidence interval of a proportion, inside [0, 1]. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

/**
 * Returns Wilson's score interval of `hits` out of `n`: centre (p + z²/2n) / (1 + z²/n), half-width z·sqrt(p(1 − p)/n +
 * z²/4n²) / (1 + z²/n).
 *
 * @remarks Wilson 1927. Clipped, since 0/77 and 38/38 overshoot in floating point. For n = 0 it is [0, 1].
 * @throws RangeError for anything but whole numbers 0 <= hits <= n
 */
export function wilson(hits: number, n: number, confidence: Confidence = 0.95): Interval {
  if (!(Number.isInteger(hits) && Number.isInteger(n) && hits >= 0 && hits <= n))
    throw new RangeError(`wilson: hits must be a whole number from 0 to n (${n}), got ${hits}`);
  if (n === 0) return { low: 0, high: 1 };
  const z2 = Z[confidence] ** 2,
    p = hits / n;
  const centre = (p + z2 / (2 * n)) / (1 + z2 / n);
  const half = (Z[confidence] * Math.sqrt((p * (1 - p)) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  return { low: hits === 0 ? 0 : Math.max(0, centre - half), high: hits === n ? 1 : Math.min(1, centre + half) };
}
