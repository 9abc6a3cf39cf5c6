import { mcnemar, pairedDifference, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { armKey } from './arms.ts';
import { METRICS } from './types.ts';
import type { Arm, Contrast, Numbers, Rule } from './types.ts';

export type Verdict = 'held' | 'not' | 'undecided';

/** One arm over its prompts; shares have Wilson's interval, 95 %. */
export interface ArmMean {
  readonly arm: Arm;
  readonly mean: number;
  readonly interval?: Interval;
  readonly slots?: number;
}
/** A contrast as it came out: differences are positive in the promised direction. */
export interface Measured {
  readonly contrast: Contrast;
  readonly n: number;
  readonly a: ArmMean;
  readonly b?: ArmMean;
  readonly difference: number;
  /** Percentile bootstrap over prompts at 1 - 0.05 / contrasts of the row. */
  readonly low: number;
  readonly high: number;
  /** Exact McNemar for right and wrong answers, the bootstrap's otherwise; absent where `a` stands alone. */
  readonly p?: number;
  readonly verdict: Verdict;
  /** Why it is undecided, where the interval alone does not say it. */
  readonly because?: string;
}

/** Trials of a task by arm. */
export type Trials = readonly Readonly<Record<string, Numbers>>[];

/** Mean caches that differ by more than this share are not matched. */
const MATCHED = 0.05;
/** Shares at or below this, or as near to 1, leave no room for a difference. */
const FLOOR = 0.05;
const RESAMPLES = 10_000;

/** The promise is held if the whole interval lies above the threshold, and not if none of it does. */
export const decide = ({ low, high }: Interval, threshold: number): Verdict =>
  low > threshold ? 'held' : high <= threshold ? 'not' : 'undecided';

/** All held; one that is not is enough. */
export function every(verdicts: readonly Verdict[]): Verdict {
  if (verdicts.includes('not')) return 'not';
  return verdicts.length > 0 && verdicts.every((verdict) => verdict === 'held') ? 'held' : 'undecided';
}

/** All differences point as promised; one that surely points elsewhere is enough for not. */
export function signs(differences: readonly (Interval & { readonly difference: number })[]): Verdict {
  if (differences.some(({ high }) => high < 0)) return 'not';
  return differences.length > 0 && differences.every(({ difference }) => difference > 0) ? 'held' : 'undecided';
}

export const ruled = (rule: Rule, measured: readonly Measured[]): Verdict =>
  rule === 'signs' ? signs(measured) : every(measured.map(({ verdict }) => verdict));

/** Measures a contrast; `contrasts` is the number of those in its row (Bonferroni). */
export function measure(contrast: Contrast, trials: Trials, contrasts: number): Measured {
  const { metric, a, b, threshold, direction } = contrast,
    { better, share = false } = METRICS[metric];
  const sign = (better === 'higher') === (direction === undefined) ? 1 : -1;
  const both = trials.flatMap((trial) => {
    const x = trial[armKey(a)],
      y = b ? trial[armKey(b)] : undefined;
    return x?.[metric] === undefined || (b && y?.[metric] === undefined)
      ? []
      : [{ x, y, of: sign * (x[metric] - (y?.[metric] ?? threshold)) }];
  });
  const pairs = both.map(({ of }) => [of]),
    level = 1 - 0.05 / contrasts;
  const { difference, low, high, p } = pairedDifference(pairs, { resamples: RESAMPLES, seed: 0, level });
  const mean = (arm: Arm, of: readonly Numbers[]): ArmMean =>
    armMean(
      arm,
      of.map((numbers) => numbers[metric]!),
      of.map(({ slots }) => slots),
      share && metric === 'hit',
    );
  const left = mean(
      a,
      both.map(({ x }) => x),
    ),
    right =
      b &&
      mean(
        b,
        both.map(({ y }) => y!),
      );
  const plain = decide({ low, high }, b ? threshold : 0);
  const because = reason({ left, right, share, plain, threshold });
  return {
    contrast,
    n: both.length,
    a: left,
    ...(right && {
      b: right,
      p: metric === 'hit' ? mcnemar(pairs.filter(([d]) => d > 0).length, pairs.filter(([d]) => d < 0).length) : p,
    }),
    difference,
    low,
    high,
    verdict: because === undefined ? plain : 'undecided',
    ...(because !== undefined && { because }),
  };
}

function armMean(
  arm: Arm,
  values: readonly number[],
  slots: readonly (number | undefined)[],
  binary: boolean,
): ArmMean {
  const n = values.length,
    total = (of: readonly number[]): number => of.reduce((x, y) => x + y, 0),
    known = slots.filter((s) => s !== undefined);
  return {
    arm,
    mean: total(values) / n,
    ...(binary && { interval: wilson(total(values), n) }),
    ...(known.length > 0 && { slots: total(known) / known.length }),
  };
}

function reason({
  left,
  right,
  share,
  plain,
  threshold,
}: {
  readonly left: ArmMean;
  readonly right: ArmMean | undefined;
  readonly share: boolean;
  readonly plain: Verdict;
  readonly threshold: number;
}): string | undefined {
  if (!right) return undefined;
  if (
    left.arm.budget !== undefined &&
    right.arm.budget !== undefined &&
    left.slots !== undefined &&
    right.slots !== undefined &&
    Math.abs(left.slots / right.slots - 1) > MATCHED
  )
    return `mean caches are not matched: ${left.slots.toFixed(1)} and ${right.slots.toFixed(1)} slots`;
  if (!share || plain !== 'not' || threshold < 0) return undefined;
  if (Math.max(left.mean, right.mean) <= FLOOR) return 'neither arm works here';
  return Math.min(left.mean, right.mean) >= 1 - FLOOR ? 'both arms are right here' : undefined;
}

/** Prompts on which arms are first tried. */
export const SCREENED = 50;

/**
 * The best of several arms against the same `b`, on the first prompts: its gain there minus its gain on all others, as
 * one contrast.
 * @throws RangeError unless more than SCREENED prompts are there
 */
export function shrinkage(contrasts: readonly Contrast[], trials: Trials): Measured {
  if (trials.length <= SCREENED)
    throw new RangeError(`shrinkage: expected more than ${SCREENED} prompts, got ${trials.length}`);
  const gain = ({ metric, a, b }: Contrast, trial: Trials[number]): number =>
    (METRICS[metric].better === 'higher' ? 1 : -1) * (trial[armKey(a)][metric]! - trial[armKey(b!)][metric]!);
  const screened = contrasts.map((contrast) =>
    trials.slice(0, SCREENED).reduce((sum, trial) => sum + gain(contrast, trial), 0),
  );
  const contrast = contrasts[screened.indexOf(Math.max(...screened))],
    n = trials.length;
  const pairs = trials.map((trial, i) => [gain(contrast, trial) * (i < SCREENED ? n / SCREENED : -n / (n - SCREENED))]);
  const { difference, low, high, p } = pairedDifference(pairs, { resamples: RESAMPLES, seed: 0 });
  const mean = (from: number, to: number): number =>
    trials.slice(from, to).reduce((sum, trial) => sum + gain(contrast, trial), 0) / (to - from);
  return {
    contrast,
    n,
    a: { arm: contrast.a, mean: mean(0, SCREENED) },
    b: { arm: contrast.a, mean: mean(SCREENED, n) },
    difference,
    low,
    high,
    p,
    verdict: decide({ low, high }, contrast.threshold),
  };
}
