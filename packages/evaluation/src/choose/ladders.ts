import { mean } from '../numbers.ts';
import type { Candidate } from './candidate.ts';
import type { ChoiceGoal } from './choice.ts';
import type { Results } from './results.ts';
import { keepsLoss } from './statistics/losses.ts';
import { race } from './statistics/race.ts';

/** Candidates, by number: one, or those of one policy by ascending share. */
export type Ladder = readonly number[];

/** Returns the candidates as they are asked: for a loss, the budgets of a policy together. */
export function laddersOf(candidates: readonly Candidate[], goal: ChoiceGoal): readonly Ladder[] {
  if ('budget' in goal) return candidates.map((_, i) => [i]);
  const by = new Map<string, number[]>();
  for (const [i, { policy }] of candidates.entries()) by.set(policy, [...(by.get(policy) ?? []), i]);
  return [...by.values()].map((some) => some.sort((a, b) => candidates[a].share - candidates[b].share));
}

/** Returns the middle of a ladder, of what is left of it. */
export const middleOf = (ladder: Ladder): Ladder => [ladder[Math.floor(ladder.length / 2)]];

/** Returns the predicted cost of a ladder on one prompt: its ends, and one candidate for each halving between them. */
export const costOf = (ladder: Ladder, candidates: readonly Candidate[]): number =>
  mean(ladder.map((i) => candidates[i].cost)) * Math.min(ladder.length, 2 + Math.ceil(Math.log2(ladder.length)));

/** Returns the ladders that fit into a number of seconds, at least one. @param seconds of a number of ladders */
export function affordable(
  ladders: readonly Ladder[],
  seconds: number,
  predicted: (some: readonly Ladder[]) => number,
): readonly Ladder[] {
  let fit = ladders.length;
  while (fit > 1 && predicted(ladders.slice(0, fit)) > seconds) fit--;
  return ladders.slice(0, fit);
}

/** What a look at the results is about. */
interface Look {
  readonly candidates: readonly Candidate[];
  readonly goal: ChoiceGoal;
  readonly level: number;
  /** Prompts that were asked. */
  readonly prompts: readonly number[];
  /** Their documents. */
  readonly clusters: readonly number[];
}

/**
 * Returns what stays in the race, best first. For a budget, candidates leave that others are shown to beat; for a loss,
 * those that are shown to lose more, with what keeps less under the same policy. None leaves while the full cache was
 * right on none of the answers that it has.
 */
export function stillIn(ladders: readonly Ladder[], results: Results, look: Look): readonly Ladder[] {
  const { prompts, clusters, goal, level } = look,
    // all that were asked, those that left too: an average over survivors alone would favour them
    asked = results.outcomes.flatMap((of, i) => (prompts.some((prompt) => of[prompt]) ? [i] : [])),
    { dropped } = race(
      asked.map((i) => results.losses(i, prompts)),
      clusters,
      { kind: results.kind, level, ...('lose' in goal && { tolerance: goal.lose }) },
    ),
    out = new Set(results.settled ? dropped.map((i) => asked[i]) : []);
  return ladders
    .map((ladder) => ladder.slice(ladder.findLastIndex((i) => out.has(i)) + 1).filter((i) => !results.refused.has(i)))
    .filter(({ length }) => length > 0)
    .map((ladder) => ({ ladder, ...scoreOf(ladder, results, look) }))
    .sort((a, b) => a.bytes - b.bytes || a.loss - b.loss || a.kl - b.kl)
    .map(({ ladder }) => ladder);
}

/**
 * Returns what a ladder is ordered by: for a loss, the fewest bytes that keep it; then the mean loss and divergence of
 * what was asked. A ladder that was not asked comes last.
 */
function scoreOf(
  ladder: Ladder,
  results: Results,
  { candidates, goal, prompts, clusters }: Look,
): { readonly bytes: number; readonly loss: number; readonly kl: number } {
  const last = Number.MAX_VALUE,
    each = ladder.flatMap((i) => {
      const found = results.meanLoss(i, prompts, clusters);
      return found ? [{ bytes: candidates[i].bytes, ...found }] : [];
    });
  if (each.length === 0) return { bytes: last, loss: last, kl: last };
  return {
    bytes: 'lose' in goal ? (each.find(({ loss }) => keepsLoss(loss, goal.lose))?.bytes ?? last) : 0,
    loss: mean(each.map(({ loss }) => loss)),
    kl: Math.min(last, mean(each.map(({ kl }) => kl))),
  };
}
