import { mean } from '../numbers.ts';
import type { Candidate } from './candidate.ts';
import type { ChoiceGoal } from './choice.ts';
import type { Results } from './results.ts';
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

/** Returns the middle of a ladder. */
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

/**
 * Returns what stays in the race, best first. For a budget, candidates leave that others are shown to beat; for a loss,
 * those that are shown to lose more, with what keeps less under the same policy.
 *
 * @param prompts those that were asked
 * @param clusters their documents
 */
export function stillIn(
  ladders: readonly Ladder[],
  results: Results,
  prompts: readonly number[],
  clusters: readonly number[],
  goal: ChoiceGoal,
  level: number,
): readonly Ladder[] {
  const { kind } = results,
    asked = ladders.flat().filter((i) => prompts.some((prompt) => results.outcomes[i][prompt])),
    { dropped } = race(
      asked.map((i) => results.losses(i, prompts)),
      clusters,
      { kind, level, ...('lose' in goal && { tolerance: goal.lose }) },
    ),
    out = new Set(dropped.map((i) => asked[i]));
  const left = ladders.flatMap((ladder) => {
    const rest = ladder.slice(ladder.findLastIndex((i) => out.has(i)) + 1).filter((i) => !results.refused.has(i));
    return rest.length > 0 ? [rest] : [];
  });
  const scores = new Map(left.map((ladder) => [ladder, scoreOf(ladder)]));
  return left.toSorted((a, b) => {
    const [x, y] = [scores.get(a)!, scores.get(b)!]; // each has one
    return x.loss - y.loss || x.kl - y.kl;
  });

  /** Means over what was asked of a ladder; what was not asked comes last. */
  function scoreOf(ladder: Ladder): { readonly loss: number; readonly kl: number } {
    const each = ladder.flatMap((i) => results.meanLoss(i, prompts, clusters) ?? []);
    return each.length === 0
      ? { loss: Number.MAX_VALUE, kl: 0 }
      : { loss: mean(each.map(({ loss }) => loss)), kl: mean(each.map(({ kl }) => Math.min(kl, Number.MAX_VALUE))) };
  }
}
