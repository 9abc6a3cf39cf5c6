import { bootstrap, mcnemar, pairedTest, wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { MATCHED, mean, sum } from '@kv/evaluation/shared';
import type { ByArm } from './jobs.ts';
import { armKey, metrics } from './types.ts';
import type { Arm, Contrast, Metric, Numbers, Rule } from './types.ts';

export type Verdict = 'held' | 'not' | 'undecided';

/** The mean of one arm over its prompts; shares of right answers have Wilson's 95 % interval. */
export interface ArmMean {
  readonly arm: Arm;
  readonly mean: number;
  readonly interval?: Interval;
  readonly slots?: number;
}
/** A measured contrast: differences are positive in the promised direction. */
export interface Measured extends Interval {
  readonly contrast: Contrast;
  readonly n: number;
  readonly a: ArmMean;
  readonly b?: ArmMean;
  /** Mean difference; its interval is the percentile bootstrap's over prompts at 1 - 0.05 / contrasts of the row. */
  readonly difference: number;
  /** p of the exact McNemar test for right and wrong answers, else of `pairedTest`; absent without `b`. */
  readonly p?: number;
  readonly verdict: Verdict;
  /** Why it is undecided, if the interval alone does not show it. */
  readonly because?: string;
}

/** Shares of at most this, or within this of 1, leave no room for a difference. */
const FLOOR = 0.05;
const BOOTSTRAP = { resamples: 10_000, seed: 0 };

/** Returns "held" if the whole interval is above the threshold, "not" if all of it is below. */
export const decide = ({ low, high }: Interval, threshold: number): Verdict =>
  low > threshold ? 'held' : high < threshold ? 'not' : 'undecided';

/**
 * Returns the interval of a difference of shares if none of n prompts distinguishes the arms, when the bootstrap gives
 * a width of 0: if a larger share of prompts did, one would have been seen, at this level (Clopper and Pearson).
 */
export const alike = (n: number, level: number): Interval => {
  const most = 1 - ((1 - level) / 2) ** (1 / n);
  return { low: -most, high: most };
};

/** Returns "held" if there is an item and all hold, "not" if one falls. */
const together = <T>(all: readonly T[], holds: (one: T) => boolean, falls: (one: T) => boolean): Verdict =>
  all.some(falls) ? 'not' : all.length > 0 && all.every(holds) ? 'held' : 'undecided';

/** Combines verdicts: "held" if all are; one "not" is enough for "not". */
export const every = (verdicts: readonly Verdict[]): Verdict =>
  together(
    verdicts,
    (verdict) => verdict === 'held',
    (verdict) => verdict === 'not',
  );

/**
 * Combines signs: "held" if all differences have the promised sign; one that surely has the other is enough for "not".
 */
export const signs = (differences: readonly (Interval & { readonly difference: number })[]): Verdict =>
  together(
    differences,
    ({ difference }) => difference > 0,
    ({ high }) => high < 0,
  );

export const ruled = (rule: Rule, measured: readonly Measured[]): Verdict =>
  rule === 'signs' ? signs(measured) : every(measured.map(({ verdict }) => verdict));

/** Measures a contrast; `contrasts` is the number of those in its row (Bonferroni). */
export function measure(contrast: Contrast, trials: readonly ByArm[], contrasts: number): Measured {
  const { metric, a, b, threshold, direction } = contrast,
    sign = (metrics[metric].better === 'higher') === (direction === undefined) ? 1 : -1;
  const both = trials.flatMap((trial) => {
    const x = trial[armKey(a)],
      y = b ? trial[armKey(b)] : { [metric]: threshold };
    const [of, against] = [x?.[metric], y?.[metric]];
    return of === undefined || against === undefined ? [] : [{ x, y, difference: sign * (of - against) }];
  });
  const differences = both.map(({ difference }) => difference),
    level = 1 - 0.05 / contrasts,
    { difference, p, ...drawn } = pairedTest(
      differences.map((one) => [one]),
      { ...BOOTSTRAP, level },
    ),
    differ = !b || differences.some((one) => one !== 0),
    { low, high } = differ || !metrics[metric].share ? drawn : alike(both.length, level);
  const left = armMean(
      a,
      metric,
      both.map(({ x }) => x),
    ),
    right =
      b &&
      armMean(
        b,
        metric,
        both.map(({ y }) => y),
      ),
    // a metric that is not a share has no bound if nothing differs
    plain = differ || metrics[metric].share ? decide({ low, high }, b ? threshold : 0) : 'undecided',
    because = right && reason(contrast, left, right, plain, differ),
    count = (holds: (one: number) => boolean): number => differences.filter(holds).length;
  return {
    contrast,
    n: both.length,
    a: left,
    ...(right && {
      b: right,
      p:
        metric === 'hit'
          ? mcnemar(
              count((one) => one > 0),
              count((one) => one < 0),
            )
          : p,
    }),
    difference,
    low,
    high,
    verdict: because === undefined ? plain : 'undecided',
    ...(because !== undefined && { because }),
  };
}

function armMean(arm: Arm, metric: Metric, numbers: readonly Numbers[]): ArmMean {
  const values = numbers.flatMap((one) => one[metric] ?? []),
    known = numbers.flatMap(({ slots }) => slots ?? []);
  return {
    arm,
    mean: mean(values),
    ...(metric === 'hit' && { interval: wilson(sum(values), values.length) }),
    ...(known.length > 0 && { slots: mean(known) }),
  };
}

/** Returns why two arms tell nothing, if so. */
function reason(
  { metric, threshold }: Contrast,
  { arm: { budget: of }, mean: x, slots = 0 }: ArmMean,
  { arm: { budget: against }, mean: y, slots: others = slots }: ArmMean,
  plain: Verdict,
  differ: boolean,
): string | undefined {
  if (of !== undefined && against !== undefined && slots > 0 && Math.abs(slots / others - 1) > MATCHED)
    return `mean caches are not matched: ${slots.toFixed(1)} and ${others.toFixed(1)} slots`;
  if (plain === 'held') return undefined;
  if (metrics[metric].share && threshold >= 0) {
    if (Math.max(x, y) <= FLOOR) return 'neither arm works here';
    if (Math.min(x, y) >= 1 - FLOOR) return 'both arms are right here';
  }
  return differ ? undefined : 'no prompt tells the arms apart';
}

/** Number of prompts on which arms are first tried. */
export const SCREENED = 50;

/**
 * Measures how much the gain of the best of several arms against the same `b`, chosen on the first prompts, shrinks on
 * all others, as one contrast: the gain there minus the gain on the others. The bootstrap draws the first prompts and
 * the others separately, and chooses the best arm again each time.
 * @throws RangeError unless there are more than SCREENED prompts
 */
export function shrinkage(contrasts: readonly Contrast[], trials: readonly ByArm[]): Measured {
  const n = trials.length;
  if (n <= SCREENED) throw new RangeError(`shrinkage: expected more than ${SCREENED} prompts, got ${n}`);
  const tried = contrasts.map((contrast) => {
    const { metric, a, b } = contrast,
      sign = metrics[metric].better === 'higher' ? 1 : -1,
      gains = trials.map((trial) => sign * (trial[armKey(a)][metric]! - trial[armKey(b!)][metric]!)); // arms were run
    return { contrast, first: gains.slice(0, SCREENED), others: gains.slice(SCREENED) };
  });
  const best = <A extends { readonly gain: number }>(arms: readonly A[]): A =>
    arms.reduce((so, arm) => (arm.gain > so.gain ? arm : so));
  const over = (of: readonly number[], places: readonly number[]): number => mean(places.map((i) => of[i])),
    whole = (of: readonly number[]): number[] => of.map((_, i) => i),
    chosen = (one: readonly number[], two: readonly number[]) => {
      const arm = best(tried.map((each) => ({ ...each, gain: over(each.first, one) })));
      return { ...arm, left: over(arm.others, two) };
    };
  const { contrast, first, others, gain, left } = chosen(whole(tried[0].first), whole(tried[0].others)),
    { low, high, p } = bootstrap(({ below }) => {
      const [one, two] = [first, others].map((of) => of.map(() => below(of.length))),
        drawn = chosen(one, two);
      return drawn.gain - drawn.left;
    }, BOOTSTRAP);
  return {
    contrast,
    n,
    a: { arm: contrast.a, mean: gain },
    b: { arm: contrast.a, mean: left },
    difference: gain - left,
    low,
    high,
    p,
    verdict: decide({ low, high }, contrast.threshold),
  };
}
