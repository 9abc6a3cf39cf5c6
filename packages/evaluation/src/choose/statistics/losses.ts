import { groupBy } from '../../grouped.ts';

/**
 * What a loss counts, and so its bounds. `same`: 1 where the greedy answer differs from the full cache's, else 0.
 * `answers`: the full cache's grade minus the candidate's, from -1 to 1.
 */
export type LossKind = 'same' | 'answers';

const LEAST: Readonly<Record<LossKind, number>> = { same: 0, answers: -1 };

/** Maps a loss from its bounds to [0, 1]. */
export const scaled = (loss: number, kind: LossKind): number => (loss - LEAST[kind]) / (1 - LEAST[kind]);
/** The inverse of `scaled`. */
export const unscaled = (share: number, kind: LossKind): number => LEAST[kind] + share * (1 - LEAST[kind]);

/** Returns the places of each document's prompts. */
export const promptsOf = (clusters: readonly number[]): readonly (readonly number[])[] => [
  ...groupBy([...clusters.keys()], (at) => String(clusters[at])).values(),
];

/** Returns the mean loss of each document; undefined where one of its prompts was not run. */
export const documentMeans = (
  losses: readonly (number | undefined)[],
  documents: readonly (readonly number[])[],
): readonly (number | undefined)[] =>
  documents.map((prompts) => prompts.reduce<number | undefined>((sum, at) => plus(sum, losses[at], prompts.length), 0));
const plus = (sum: number | undefined, loss: number | undefined, of: number): number | undefined =>
  sum === undefined || loss === undefined ? undefined : sum + loss / of;

/** Checks the losses of a candidate. @throws RangeError for a loss outside its bounds, or one too many or too few */
export function checkLosses(
  where: string,
  losses: readonly (number | undefined)[],
  clusters: readonly number[],
  kind: LossKind,
): void {
  if (losses.length !== clusters.length)
    throw new RangeError(`${where}: expected a loss for each of ${clusters.length} prompts, got ${losses.length}`);
  const wrong = losses.find((loss) => loss !== undefined && !(loss >= LEAST[kind] && loss <= 1));
  if (wrong !== undefined)
    throw new RangeError(`${where}: expected losses (${kind}) from ${LEAST[kind]} to 1, got ${wrong}`);
}

/** Checks a level. @throws RangeError unless it is above 0 and below 1 */
export function checkLevel(where: string, level: number): void {
  if (!(level > 0 && level < 1)) throw new RangeError(`${where}: expected a level between 0 and 1, got ${level}`);
}

/** Slack of comparisons: means of fractions are off by rounding, as 0.05 may be 0.050000000000000044. */
const ROUNDING = 1e-9;

/** Returns whether a loss is at most the one that is allowed. */
export const keepsLoss = (loss: number, allowed: number): boolean => loss <= allowed + ROUNDING;

/** Returns whether a loss is above the least one by at most one of the documents: a difference of one tells nothing. */
export const withinOne =
  (least: number, documents: number) =>
  (loss: number): boolean =>
    loss <= least + 1 / Math.max(1, documents) + ROUNDING;
