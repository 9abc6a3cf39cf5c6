import { contrastsOf, promptsOf } from './jobs.ts';
import type { Contrast, Kind, Planned } from './types.ts';

/** Minimum power: a contrast that would be found less often tells nothing. */
export const ENOUGH = 0.8;

/** Standard normal distribution function. @remarks Abramowitz and Stegun, 26.2.17, to 7.5e-8. */
function below(z: number): number {
  const t = 1 / (1 + 0.2316419 * Math.abs(z)),
    poly = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))),
    tail = (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * poly;
  return z > 0 ? 1 - tail : tail;
}

/** Standard normal quantile function, by bisection. */
function quantile(chance: number): number {
  let [low, high] = [-10, 10];
  while (high - low > 1e-9) {
    const middle = (low + high) / 2;
    if (below(middle) < chance) low = middle;
    else high = middle;
  }
  return low;
}

/**
 * Returns the probability that a contrast of right answers holds at n prompts if both arms are as good as the paper
 * printed, at 1 - 0.05 / contrasts; undefined if the paper printed no shares.
 *
 * @remarks By the normal approximation, with arms that err on different prompts independently.
 */
export function powerOf(
  { printed, threshold, direction }: Pick<Contrast, 'printed' | 'threshold' | 'direction'>,
  n: number,
  contrasts: number,
): number | undefined {
  if (!printed) return undefined;
  const [a, b] = printed,
    over = (direction === 'worse' ? b - a : a - b) - threshold,
    error = Math.sqrt((a * (1 - a) + b * (1 - b)) / n);
  return error === 0 ? Number(over > 0) : below(over / error - quantile(1 - 0.025 / contrasts));
}

/** Returns the least power among the contrasts of a row, if the paper says what to expect. */
export function powerOfRow(row: Planned, kind: Kind, asked?: number): number | undefined {
  const contrasts = contrastsOf(row, kind),
    n = promptsOf(row, kind, asked),
    powers = contrasts.flatMap((contrast) => powerOf(contrast, n, contrasts.length) ?? []);
  return powers.length === 0 ? undefined : Math.min(...powers);
}
