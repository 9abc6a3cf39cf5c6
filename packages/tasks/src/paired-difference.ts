import { random, type Random } from './random.ts';

/** A paired difference with its confidence interval and p-value. */
export interface PairedDifference {
  /** Mean of all differences; a cluster's weight is its number of members. */
  readonly difference: number;
  /** Bounds of the bootstrap's percentile interval; see `within` for clusters that all say the same. */
  readonly low: number;
  readonly high: number;
  /**
   * Two-sided p of the bootstrap alone: 2·min over both tails of (resamples there + 1) / (resamples + 1), at most 1;
   * ties at 0 count on both sides. Never 0, yet too small for few clusters; use `pairedTest` to decide.
   */
  readonly p: number;
}

/** Options of a bootstrap. */
export interface BootstrapOptions {
  /** Number of resamples. @defaultValue 10000 */
  readonly resamples?: number;
  /** Seed of the random numbers. @defaultValue 0 */
  readonly seed?: number;
  /** Level of the interval. @defaultValue 0.95 */
  readonly level?: number;
}

/** Options of `pairedDifference` and `pairedTest`. */
export interface PairedOptions extends BootstrapOptions {
  /**
   * The least and the largest that a difference can be, such as [-1, 1] for shares. Clusters that all say the same give a
   * bootstrap nothing to draw: with `within` their interval reaches as far as the clusters that were not seen may move
   * the mean. @defaultValue none: such an interval has no width
   */
  readonly within?: readonly [least: number, largest: number];
}

/**
 * Bootstraps paired differences over clusters: problems are drawn with replacement, each with all its members.
 *
 * @remarks Miller, arXiv:2411.00640; a ratio estimator, as in inspect_ai. The + 1 in p: Phipson & Smyth 2010. Of n equal
 * clusters, at most 1 - tail^(1/n) of all differ from them, as Clopper and Pearson's interval has it.
 * @throws RangeError without any difference, or for a level outside (0, 1)
 */
export function pairedDifference(
  clusters: readonly (readonly number[])[],
  { within, ...options }: PairedOptions = {},
): PairedDifference {
  const { level = 0.95 } = options;
  const sums = clusters.map(sum);
  const size = clusters.reduce((n, cluster) => n + cluster.length, 0);
  if (size === 0) throw new RangeError('pairedDifference: expected at least one difference, got none');
  if (!(level > 0 && level < 1))
    throw new RangeError(`pairedDifference: expected a level between 0 and 1, got ${level}`);
  const difference = sum(sums) / size,
    unseen = alike(clusters) ? 1 - ((1 - level) / 2) ** (1 / clusters.length) : 0;
  return {
    difference,
    ...bootstrap(({ below }) => {
      let total = 0,
        members = 0;
      for (let i = 0; i < clusters.length; i++) {
        const drawn = below(clusters.length);
        total += sums[drawn];
        members += clusters[drawn].length;
      }
      return members === 0 ? 0 : total / members;
    }, options),
    ...(within &&
      unseen > 0 && {
        low: difference + unseen * Math.min(0, within[0] - difference),
        high: difference + unseen * Math.max(0, within[1] - difference),
      }),
  };
}

/** Whether all clusters have the same mean. */
function alike(clusters: readonly (readonly number[])[]): boolean {
  const means = clusters.filter(({ length }) => length > 0).map((cluster) => sum(cluster) / cluster.length);
  return Math.max(...means) - Math.min(...means) <= TIE;
}

/**
 * Returns `pairedDifference` with p replaced by the larger of the bootstrap's and the sign-flip test's: how often a
 * mean at least as far from 0 would occur if chance alone had chosen the sign of each cluster's difference. With few
 * clusters the bootstrap's p is too small. For one difference a cluster, each -1, 0 or 1, the sign-flip test is
 * McNemar's exact test.
 *
 * @remarks All 2^k patterns of the k clusters that differ, up to 16; else as many drawn patterns as the bootstrap has
 * resamples, + 1. Fisher 1935, section 21; Phipson & Smyth 2010.
 * @throws RangeError as `pairedDifference`
 */
export function pairedTest(clusters: readonly (readonly number[])[], options?: PairedOptions): PairedDifference {
  const found = pairedDifference(clusters, options);
  return { ...found, p: Math.max(found.p, signFlip(clusters.map(sum), options)) };
}

/** Maximum number of differing clusters for which all sign patterns are enumerated. */
const FEW = 16;

function signFlip(sums: readonly number[], { resamples = 10_000, seed = 0 }: BootstrapOptions = {}): number {
  const sizes = sums.map(Math.abs).filter((size) => size > TIE),
    k = sizes.length,
    observed = Math.abs(sum(sums)) - TIE,
    source = random(seed),
    patterns = k <= FEW ? 2 ** k : resamples;
  let far = 0;
  for (let pattern = 0; pattern < patterns; pattern++) {
    let total = 0;
    for (let i = 0; i < k; i++) total += (k <= FEW ? (pattern >> i) & 1 : source.below(2)) ? sizes[i] : -sizes[i];
    if (Math.abs(total) >= observed) far++;
  }
  return k <= FEW ? far / patterns : (far + 1) / (patterns + 1);
}

/**
 * Computes a statistic over resamples; each call of `drawn` draws a resample and returns its statistic.
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

/** Tolerance of a tie: sums of the same fractions in another order may differ by this much. */
const TIE = 1e-12;

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Interpolates linearly between order statistics, as numpy's default. */
function quantile(sorted: Float64Array, q: number): number {
  const at = q * (sorted.length - 1),
    below = Math.floor(at);
  return sorted[below] + (at - below) * ((sorted[below + 1] ?? sorted[below]) - sorted[below]);
}
