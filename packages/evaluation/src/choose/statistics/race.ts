import { mean } from '../../numbers.ts';
import { stake } from './bets.ts';
import { checkLevel, checkLosses, documentMeans, promptsOf, scaled } from './losses.ts';
import type { LossKind } from './losses.ts';

/** Losses by candidate and prompt; undefined: not run. */
export type Losses = readonly (readonly (number | undefined)[])[];
type Means = readonly (number | undefined)[];

/** What a race has shown so far. */
export interface Race {
  /** Candidates that nothing was shown against, least mean loss first; those without a finished document last. */
  readonly alive: readonly number[];
  readonly dropped: readonly number[];
}
/** Options of `race`. */
export interface RaceOptions {
  readonly kind: LossKind;
  /** @defaultValue 0.95 */
  readonly level?: number;
  /** The loss that is allowed. @defaultValue none: candidates are compared with each other */
  readonly tolerance?: number;
}

/**
 * Decides which candidates may still be the one that is looked for. A document is one observation, the mean of its
 * prompts, and counts once all its prompts are run.
 *
 * Without `tolerance` a candidate is dropped when the others, together, are shown to lose less on the same documents:
 * the average of their stakes against it, which needs no correction for their number, reaches 1 / (1 - level). The
 * candidate of least expected loss is ever dropped with probability at most 1 - level, however often one looks. With
 * `tolerance` a candidate is dropped when its loss is shown to be above it; one that keeps within it is ever dropped
 * with probability at most 1 - level.
 *
 * Which prompts a candidate is given may depend on everything seen before, not on what it will do on them. Candidates
 * that left the race, for whatever reason, stay among `losses`: the average over the survivors alone would be no fair
 * game.
 *
 * @param clusters the document of each prompt
 * @remarks Stakes: `stake`. Averages of e-values under any dependence: Vovk & Wang, Annals of Statistics 49 (2021).
 * @throws RangeError for losses outside the bounds of their kind
 */
export function race(
  losses: Losses,
  clusters: readonly number[],
  { kind, level = 0.95, tolerance }: RaceOptions,
): Race {
  checkLevel('race', level);
  for (const row of losses) checkLosses('race', row, clusters, kind);
  const documents = promptsOf(clusters),
    means = losses.map((row) => documentMeans(row, documents)),
    enough = 1 / (1 - level),
    all = [...losses.keys()],
    shown = (c: number): boolean =>
      tolerance === undefined
        ? beaten(c, means) >= enough
        : stake(
            run(means[c]).map((loss) => scaled(loss, kind)),
            scaled(tolerance, kind),
          ) >= enough,
    dropped = all.filter(shown);
  return {
    alive: ranked(
      all.filter((c) => !dropped.includes(c), means),
      means,
    ),
    dropped,
  };
}

const run = (means: Means): readonly number[] => means.filter((loss) => loss !== undefined);

/** Returns the average stake of the other candidates against one. */
function beaten(c: number, means: readonly Means[]): number {
  let all = 0;
  for (const [other, row] of means.entries()) if (other !== c) all += stake(pairs(means[c], row), 0.5);
  return means.length > 1 ? all / (means.length - 1) : 1;
}
/**
 * Returns the differences of two candidates on the documents that both finished, mapped from [-1, 1] to [0, 1]: the
 * full cache's grade cancels out of both losses.
 * @throws RangeError for a difference outside [-1, 1]
 */
export function pairs(a: Means, b: Means): readonly number[] {
  const differences: number[] = [];
  for (let at = 0; at < a.length; at++) {
    const [x, y] = [a[at], b[at]];
    if (x === undefined || y === undefined) continue;
    // sums of fractions may leave the bounds by a rounding error
    if (Math.abs(x - y) > 1 + 1e-9)
      throw new RangeError(
        `race: expected losses of two candidates on a document to differ by 1 at most, got ${x} and ${y}`,
      );
    differences.push(Math.min(1, Math.max(0, (x - y + 1) / 2)));
  }
  return differences;
}

/** Sorts candidates by mean loss on the documents that all of them finished; by all of their own if there is none. */
function ranked(candidates: readonly number[], means: readonly Means[]): readonly number[] {
  const started = candidates.filter((c) => run(means[c]).length > 0),
    common = (means[0] ?? []).map((_, at) => started.every((c) => means[c][at] !== undefined)),
    counted = common.some(Boolean) ? (at: number): boolean => common[at] : (): boolean => true,
    loss = new Map(started.map((c) => [c, mean(run(means[c].filter((_, at) => counted(at))))]));
  return [...candidates].sort((a, b) => (loss.get(a) ?? Infinity) - (loss.get(b) ?? Infinity) || a - b);
}
