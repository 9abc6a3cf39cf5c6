import { wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { mean, sum } from '../numbers.ts';
import type { NeedleAnswer, NeedleResult } from './results.ts';
import type { NeedleSettings, NeedleArm } from './settings.ts';

/** Number of right answers among some prompts. */
export interface Accuracy {
  readonly hits: number;
  readonly n: number;
  readonly share: number;
  /** Wilson's 95 % interval. */
  readonly interval: Interval;
}

/** The results of one arm over all its prompts. */
export interface NeedleRow {
  readonly arm: NeedleArm;
  readonly policy: string;
  readonly accuracy: Accuracy;
  /** In the order of the settings' depths. */
  readonly byDepth: readonly Accuracy[];
  /** Mean share of layers and KV heads that still hold the whole value. */
  readonly retained: number;
  /** Share of prompts whose whole value is still in some layer and KV head. */
  readonly somewhere: number;
  /** Bytes: the mean while answering, and the peak over all prompts; undefined if the arm was not run. */
  readonly memory: { readonly mean: number; readonly peak: number } | undefined;
  /** Tokens per second relative to the full cache in the same form on the same prompts. */
  readonly speed: number | undefined;
}

const accuracy = (answers: readonly NeedleAnswer[]): Accuracy => {
  const n = answers.length,
    hits = answers.filter(({ hit }) => hit).length;
  return { hits, n, share: hits / n || 0, interval: wilson(hits, n) };
};
const rate = (answers: readonly NeedleAnswer[]): number =>
  sum(answers.map(({ tokens }) => tokens)) / sum(answers.map(({ ms }) => ms));

/** Summarizes results, one row per arm; results of a job that ran twice count once. */
export function summarise(
  { policies, depths }: NeedleSettings,
  arms: readonly NeedleArm[],
  results: readonly NeedleResult[],
): readonly NeedleRow[] {
  const once = [...new Map(results.map((result) => [result.id, result])).values()];
  const of = (arm: number, depth?: number): readonly NeedleAnswer[] =>
    once
      .filter((result) => depth === undefined || result.depth === depth)
      .flatMap(({ outcomes }) => outcomes.filter((outcome) => outcome.arm === arm));
  return arms.map((arm, index): NeedleRow => {
    const answers = of(index),
      full = arms.findIndex(
        ({ mode, cache, budget }) => mode === arm.mode && cache === arm.cache && budget === undefined,
      ),
      speed = rate(answers) / rate(of(full));
    return {
      arm,
      policy: policies[arm.policy],
      accuracy: accuracy(answers),
      byDepth: depths.map((depth) => accuracy(of(index, depth))),
      retained: mean(answers.map(({ retained }) => retained)) || 0,
      somewhere: mean(answers.map(({ retained }) => Number(retained > 0))) || 0,
      memory:
        answers.length === 0
          ? undefined
          : { mean: mean(answers.map((one) => one.mean)), peak: Math.max(...answers.map(({ peak }) => peak)) },
      speed: Number.isFinite(speed) ? speed : undefined,
    };
  });
}
