import { random, type Random } from './random.ts';

export interface PairedDifference {
  /** Mean of all differences: every cluster weighs as much as it has members. */
  readonly difference: number;
  /** Percentile interval of the bootstrap. */
  readonly low: number;
  readonly high: number;
  /**
   * Two-sided, of the bootstrap alone: 2·min over both tails of (resamples there + 1) / (resamples + 1), at most 1; ties
   * at 0 count on both sides. Never 0, yet too small where few clusters differ: `pairedTest` decides.
   */
  readonly p: number;
}

export interface BootstrapOptions {
  /** @defaultValue 10000 */
  readonly resamples?: number;
  /** @defaultValue 0 */
  readonly seed?: number;
  /** Of the interval. @defaultValue 0.95 */
  readonly level?: number;
}

/**
 * Bootstrap of paired differences over clusters: problems are drawn with replacement, each with all its members.
 *
 * @remarks Miller, arXiv:2411.00640; a ratio estimator, as in inspect_ai. The + 1 in p: Phipson & Smyth 2010.
 * @throws RangeError without any difference, or for a level outside (0, 1)
 */
export function pairedDifference(
  clusters: readonly (readonly number[])[],
  { resamples = 10_000, seed = 0, level = 0.95 }: BootstrapOptions = {},
): PairedDifference {
  const sums = clusters.map(sum);
  const size = clusters.reduce((n, cluster) => n + cluster.length, 0);
  if (size === 0) throw new RangeError('pairedDifference: expected at least one difference, got none');
  if (!(level > 0 && level < 1))
    throw new RangeError(`pairedDifference: expected a level between 0 and 1, got ${level}`);
  return {
    difference: sum(sums) / size,
    ...bootstrap(
      ({ below }) => {
        let total = 0,
          members = 0;
        for (let i = 0; i < clusters.length; i++) {
          const drawn = below(clusters.length);
          total += sums[drawn];
          members += clusters[drawn].length;
        }
        return members === 0 ? 0 : total / members;
      },
      { resamples, seed, level },
    ),
  };
}

/**
 * `pairedDifference` with a p that so few clusters can give: at least min(1, 2^(1 - k)) for k clusters whose mean is not
 * 0, since of the 2^k signs that they could have had by chance two patterns are as far out as any, these and their
 * opposites; bare resamples of one cluster are all alike, whatever chance made of it.
 *
 * @remarks The bound is the least p of the exact sign-flip test. Fisher 1935, section 21; Phipson & Smyth 2010.
 * @throws RangeError as `pairedDifference`
 */
export function pairedTest(clusters: readonly (readonly number[])[], options?: BootstrapOptions): PairedDifference {
  const found = pairedDifference(clusters, options),
    differing = clusters.filter((cluster) => Math.abs(sum(cluster)) > TIE).length;
  return { ...found, p: Math.max(found.p, Math.min(1, 2 ** (1 - differing))) };
}

/**
 * What a statistic is over resamples: `drawn` draws one from the data and computes it there.
 * @throws RangeError for a level outside (0, 1)
 */
export function bootstrap(
  drawn: (random: Random) => number,
  { resamples = 10_000, seed = 0, level = 0.95 }: BootstrapOptions = {},
): Omit<PairedDifference, 'difference'> {
  if (!(level > 0 && level < 1)) throw new RangeError(`bootstrap: expected a level between 0 and 1, got ${level}`);
  const source = random(seed),
    all = Float64Array.from({ length: resamples }, () => drawn(source)).sort(),
    tail = (sign: 1 | -1): number => (all.filter((x) => sign * x >= -TIE).length + 1) / (resamples + 1);
  return {
    low: quantile(all, (1 - level) / 2),
    high: quantile(all, (1 + level) / 2),
    p: Math.min(1, 2 * Math.min(tail(1), tail(-1))),
  };
}

/** Sums of the same fractions in another order may differ by so much: they are a tie. */
const TIE = 1e-12;

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Linear between order statistics, as numpy's default. */
function quantile(sorted: Float64Array, q: number): number {
  const at = q * (sorted.length - 1),
    below = Math.floor(at);
  return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}
