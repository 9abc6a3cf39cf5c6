import { mean, sum } from '../../numbers.ts';
import { stake } from './bets.ts';
import { checkLevel, checkLosses, documentMeans, promptsOf, scaled, unscaled } from './losses.ts';
import type { LossKind } from './losses.ts';
import { pairs } from './race.ts';

/** A mean loss with its interval. */
export interface LossInterval {
  /** Mean over documents of the mean of their prompts. */
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  /** Number of prompts. */
  readonly n: number;
  /** Number of documents. */
  readonly clusters: number;
}
/** Options of `lossInterval` and `tiesWith`. */
export interface IntervalOptions {
  readonly kind: LossKind;
  /** @defaultValue 0.95 */
  readonly level?: number;
}

/**
 * Returns the mean loss of a candidate with its two-sided interval, for a set of documents that was fixed before, and
 * that had no say in choosing the candidate. It covers the expected loss of a document with probability at least
 * `level`, however few documents there are and whatever their losses look like: Clopper and Pearson's interval for
 * `same` with one prompt a document, else all means that no bet on either side, at half of 1 - `level` each, rules out
 * (`stake`).
 *
 * @param losses of each prompt
 * @param clusters the document of each prompt
 * @remarks Not Wilson's interval or the bootstrap: both say too little about rare losses (0 of 20 would be [0, 0] for
 * the bootstrap).
 * @throws RangeError without any loss, or for losses outside the bounds of their kind
 */
export function lossInterval(
  losses: readonly number[],
  clusters: readonly number[],
  { kind, level = 0.95 }: IntervalOptions,
): LossInterval {
  checkLevel('lossInterval', level);
  checkLosses('lossInterval', losses, clusters, kind);
  if (losses.length === 0) throw new RangeError('lossInterval: expected at least one loss, got none');
  const documents = promptsOf(clusters),
    means = documentMeans(losses, documents).map((loss) => loss as number),
    tail = (1 - level) / 2,
    counts = { n: losses.length, clusters: documents.length };
  if (kind === 'same' && documents.length === losses.length) {
    const n = losses.length,
      lost = sum(losses);
    if (losses.some((loss) => loss !== 0 && loss !== 1))
      throw new RangeError('lossInterval: expected losses (same) of 0 or 1, got fractions');
    return { mean: lost / n, low: leastShare(lost, n, tail), high: 1 - leastShare(n - lost, n, tail), ...counts };
  }
  const shares = means.map((loss) => scaled(loss, kind));
  return {
    mean: mean(means),
    low: unscaled(leastMean(shares, tail), kind),
    high: unscaled(
      1 -
        leastMean(
          shares.map((x) => 1 - x),
          tail,
        ),
      kind,
    ),
    ...counts,
  };
}

/** Halvings of an interval: to the last bit of a number below 1. */
const HALVINGS = 60;
/** Returns the largest place in [0, 1], or a little below, up to which `excluded` holds; 0 if it holds nowhere. */
function excludedUpTo(excluded: (place: number) => boolean): number {
  let [low, high] = [0, 1];
  for (let i = 0; i < HALVINGS; i++) {
    const middle = (low + high) / 2;
    if (excluded(middle)) low = middle;
    else high = middle;
  }
  return low;
}
/** Returns the largest mean that bets on a larger one rule out. */
const leastMean = (values: readonly number[], tail: number): number =>
  excludedUpTo((place) => stake(values, place) >= 1 / tail);
/** Returns Clopper and Pearson's lower end: the largest share under which `lost` or more of n have probability `tail`. */
const leastShare = (lost: number, n: number, tail: number): number =>
  lost === 0 ? 0 : excludedUpTo((share) => atLeast(lost, n, share) <= tail);
/** Returns the probability of at least `least` of n. In logarithms: the terms at both ends may be too small. */
function atLeast(least: number, n: number, share: number): number {
  let log = n * Math.log1p(-share),
    total = least === 0 ? Math.exp(log) : 0;
  for (let k = 1; k <= n; k++) {
    log += Math.log((n - k + 1) / k) + Math.log(share) - Math.log1p(-share);
    if (k >= least) total += Math.exp(log);
  }
  return total;
}

/**
 * Returns the candidates that cannot be told from candidate `of` on documents that had no say in choosing it: whose
 * paired difference from it, in either direction, no bet rules out as 0, corrected for their number. All others: no
 * difference was shown.
 *
 * @throws RangeError as `lossInterval`
 */
export function tiesWith(
  losses: readonly (readonly number[])[],
  clusters: readonly number[],
  of: number,
  { kind, level = 0.95 }: IntervalOptions,
): readonly number[] {
  checkLevel('tiesWith', level);
  for (const row of losses) checkLosses('tiesWith', row, clusters, kind);
  const documents = promptsOf(clusters),
    means = losses.map((row) => documentMeans(row, documents)),
    enough = (2 * (losses.length - 1)) / (1 - level),
    apart = (a: number, b: number): boolean => stake(pairs(means[a], means[b]), 0.5) >= enough;
  return [...losses.keys()].filter((c) => c !== of && !apart(c, of) && !apart(of, c));
}

/**
 * Returns the fewest documents with which `tiesWith` could tell a candidate from `others` at all: each loses everything
 * where the other loses nothing.
 */
export function documentsToTell(others: number, level = 0.95): number {
  const enough = (2 * others) / (1 - level);
  let documents = 1;
  while (stake([1], 0.5, documents) < enough) documents++;
  return documents;
}

/** Returns the smallest loss that a number of documents, of which none loses anything, rule out. */
export function smallestShown(documents: number, { kind, level = 0.95 }: IntervalOptions): number {
  const tail = (1 - level) / 2,
    none = scaled(0, kind);
  return kind === 'same'
    ? 1 - tail ** (1 / documents)
    : unscaled(1 - excludedUpTo((place) => stake([1 - none], place, documents) >= 1 / tail), kind);
}

/** No one has more documents. */
const MOST = 2 ** 40;
/**
 * Returns the number of documents that it takes to rule out a loss, if none of them loses anything; Infinity for more
 * than there are.
 */
export function documentsNeeded(loss: number, options: IntervalOptions): number {
  let [few, many] = [0, 1];
  while (smallestShown(many, options) > loss) {
    if (many > MOST) return Infinity;
    [few, many] = [many, 2 * many];
  }
  while (many - few > 1) {
    const middle = Math.floor((few + many) / 2);
    if (smallestShown(middle, options) > loss) few = middle;
    else many = middle;
  }
  return many;
}
