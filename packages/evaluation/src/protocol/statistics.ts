import { documentOf } from '../grouped.ts';
import { bonferroni, pairedTest } from '@kv/tasks';
import { agree } from '../cells/rebudget.ts';
import type { CellResult } from '../cells/types.ts';
import { mean } from '../numbers.ts';

/** Mean gains within this distance of the best are ties. */
const TIE = 0.005;

type Gains = readonly { readonly lambda: number; readonly gain: number }[];

/** Returns the weights whose mean gain is the largest, or within half a point of it. */
export function tiedLambdas(gains: Gains): readonly number[] {
  const best = Math.max(...gains.map(({ gain }) => gain));
  // in floating point 0.75 and 0.25 points are not always half a point apart
  return gains.filter(({ gain }) => gain >= best - TIE - 1e-12).map(({ lambda }) => lambda);
}

/** Returns the weight with the largest mean gain; of those within half a point of it the smallest. */
export const chosenLambda = (gains: Gains): number => Math.min(...tiedLambdas(gains));

/** The results of one policy on some problems. */
export interface ArmSummary {
  readonly accuracy: number;
  /** Share of answers without the requested form. */
  readonly unparsed: number;
  /** Slots per layer and KV head over the whole generation, mean of all samples. */
  readonly meanSlots: number;
  /** Largest number of slots of a KV head. */
  readonly peakSlots: number;
  /** Bytes of the cache and of what the policy records, over the whole generation, mean of all samples. */
  readonly meanBytes: number;
  /** The most of them at any time, over all samples. */
  readonly peakBytes: number;
}
export const armSummary = (results: readonly CellResult[]): ArmSummary => ({
  accuracy: mean(results.map(({ score }) => score)),
  unparsed: mean(results.map(({ parsed }) => (parsed ? 0 : 1))),
  meanSlots: mean(results.map(({ slots }) => slots.mean)),
  peakSlots: results.reduce((most, { slots }) => Math.max(most, slots.peak), 0),
  meanBytes: mean(results.map(({ bytes }) => bytes.mean)),
  peakBytes: results.reduce((most, { bytes }) => Math.max(most, bytes.peak), 0),
});

/**
 * Returns the differences between two arms, paired by problem and seed and grouped by document. @throws Error for a sample without a
 * pair
 */
export function pairedByProblem(
  method: readonly CellResult[],
  base: readonly CellResult[],
  number: (result: CellResult) => number = ({ score }) => score,
): readonly (readonly number[])[] {
  const key = ({ task, problem, seed }: CellResult): string => JSON.stringify([task, problem, seed]),
    scores = new Map(base.map((result) => [key(result), number(result)])),
    clusters = new Map<string, number[]>();
  for (const result of method) {
    const of = JSON.stringify([result.task, documentOf(result)]),
      score = scores.get(key(result));
    if (score === undefined) throw new Error(`paired: expected a base for ${key(result)}`);
    clusters.set(of, [...(clusters.get(of) ?? []), number(result) - score]);
  }
  return [...clusters.values()];
}

export type Role = 'primary' | 'second';
/** The comparison on one model at one budget. */
export interface ConfirmCell {
  readonly model: string;
  readonly role: Role;
  readonly budget: number;
  readonly problems: number;
  readonly base: ArmSummary;
  readonly candidate: ArmSummary & { readonly budget: number };
  /** Whether the mean caches match on these problems. */
  readonly matched: boolean;
  /** Candidate minus base, as a share. */
  readonly difference: number;
  readonly low: number;
  readonly high: number;
  /** Two-sided p of `pairedTest` of `@kv/tasks`. */
  readonly p: number;
  /** p times the number of declared cells. */
  readonly bonferroni: number;
}

/** The data of a cell before its statistics. */
export interface CellSample extends Pick<ConfirmCell, 'model' | 'role' | 'budget'> {
  readonly candidateBudget: number;
  readonly base: readonly CellResult[];
  readonly candidate: readonly CellResult[];
}

/**
 * Computes the statistics of all cells: cluster bootstrap of 10,000 over the problems of each, and Bonferroni over all
 * of them.
 */
export function confirmCells(sampled: readonly CellSample[], within: number): readonly ConfirmCell[] {
  const cells = sampled.map(({ model, role, budget, candidateBudget, base, candidate }) => {
    const clusters = pairedByProblem(candidate, base),
      [a, b] = [armSummary(base), armSummary(candidate)];
    return {
      model,
      role,
      budget,
      problems: clusters.length,
      base: a,
      candidate: { budget: candidateBudget, ...b },
      matched: agree(b.meanSlots, a.meanSlots, within),
      ...pairedTest(clusters, { resamples: 10_000, within: [-1, 1] }),
    };
  });
  const adjusted = bonferroni(cells.map(({ p }) => p));
  return cells.map((cell, i) => ({ ...cell, bonferroni: adjusted[i] }));
}

export type Branch = 'A' | 'B' | 'C';
/** The branch of the predefined rule, with each condition; cells that are not matched meet none. */
export interface ProtocolDecision {
  /** Absent if a cell's mean caches are not matched: memory may explain the difference. */
  readonly branch?: Branch;
  /** At least one primary cell gains, at p < .05. */
  readonly primaryGains: boolean;
  /** The mean difference of second cells is above 0; false without any. */
  readonly secondMeanPositive: boolean;
  /** No second cell loses, at p < .05. */
  readonly noSecondLoss: boolean;
  /** The stricter guard, over all cells. */
  readonly noLoss: boolean;
  /** Cells that gain after Bonferroni. */
  readonly passed: number;
}

const LEVEL = 0.05;

/**
 * Applies the decision rule. A: a primary cell gains, second cells gain on average and none loses; B: only a primary
 * cell gains; C: not even that. No branch unless the mean caches of every cell are matched.
 *
 * @remarks The alpha paper, section 4.2, where Qwen is primary and Llama second; its section 3.2 asks for matched
 * caches first.
 */
export function decide(
  cells: readonly Pick<ConfirmCell, 'role' | 'matched' | 'difference' | 'p' | 'bonferroni'>[],
): ProtocolDecision {
  const of = (role: Role): typeof cells => cells.filter((cell) => cell.role === role),
    gains = ({ matched, difference }: (typeof cells)[number], p: number): boolean =>
      matched && difference > 0 && p < LEVEL,
    loses = ({ difference, p }: (typeof cells)[number]): boolean => difference < 0 && p < LEVEL,
    second = of('second'),
    matched = cells.length > 0 && cells.every((cell) => cell.matched),
    primaryGains = of('primary').some((cell) => gains(cell, cell.p)),
    secondMeanPositive = second.every((cell) => cell.matched) && mean(second.map(({ difference }) => difference)) > 0,
    noSecondLoss = !second.some(loses),
    branch = !primaryGains ? 'C' : secondMeanPositive && noSecondLoss ? 'A' : 'B';
  return {
    ...(matched && { branch }),
    primaryGains,
    secondMeanPositive,
    noSecondLoss,
    noLoss: !cells.some(loses),
    passed: cells.filter((cell) => gains(cell, cell.bonferroni)).length,
  };
}

/** Describes the cells whose mean caches are not matched, with both means; undefined if all are. */
export function notMatched(cells: readonly ConfirmCell[]): string | undefined {
  const apart = cells.filter(({ matched }) => !matched);
  if (apart.length === 0) return undefined;
  const each = apart.map(
    ({ model, budget, base, candidate }) =>
      `${model} at ${budget}: mean caches of ${candidate.meanSlots.toFixed(1)} and ${base.meanSlots.toFixed(1)} slots`,
  );
  return `not matched: ${each.join('; ')}`;
}
