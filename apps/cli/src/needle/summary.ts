import { wilson } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { isAlone } from './results.ts';
import type { Outcome, PromptResult, Result } from './results.ts';
import type { Settings, Way } from './settings.ts';

/** Right answers of some prompts. */
export interface Accuracy {
  readonly hits: number;
  readonly n: number;
  readonly share: number;
  readonly interval: Interval;
}

/** One way over all its prompts. */
export interface Row {
  readonly way: Way;
  readonly policy: string;
  readonly accuracy: Accuracy;
  /** In the order of `Settings.depths`. */
  readonly byDepth: readonly Accuracy[];
  /** Mean share of layers and KV heads that still hold the whole value. */
  readonly retained: number;
  /** Share of prompts whose whole value is still in some layer and KV head. */
  readonly somewhere: number;
  /** Bytes of a run by itself: mean while answering, and the most it ever held. */
  readonly memory: { readonly mean: number; readonly peak: number } | undefined;
  /** Tokens a second against the full cache on the same prompts. */
  readonly speed: number | undefined;
}

const accuracy = (outcomes: readonly Outcome[]): Accuracy => {
  const n = outcomes.length,
    hits = outcomes.filter(({ hit }) => hit).length;
  return { hits, n, share: n === 0 ? 0 : hits / n, interval: wilson(hits, n) };
};
const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);
const mean = (numbers: readonly number[]): number => (numbers.length === 0 ? 0 : sum(numbers) / numbers.length);
const rate = (outcomes: readonly Outcome[]): number =>
  sum(outcomes.map(({ tokens }) => tokens)) / sum(outcomes.map(({ ms }) => ms));

/** One row a way; results of a job that ran twice count once. */
export function summarise(
  { policies, depths }: Settings,
  ways: readonly Way[],
  results: readonly Result[],
): readonly Row[] {
  const once = [...new Map(results.map((result) => [result.id, result])).values()];
  const prompts = once.filter((result): result is PromptResult => !isAlone(result));
  const memory = new Map(once.filter(isAlone).map(({ way, mean, peak }) => [way, { mean, peak }]));
  const of = (way: number, depth?: number): readonly Outcome[] =>
    prompts
      .filter((result) => depth === undefined || result.depth === depth)
      .flatMap(({ outcomes }) => outcomes.filter((outcome) => outcome.way === way));
  return ways.map((way, index): Row => {
    const outcomes = of(index),
      full = ways.findIndex(({ mode, budget }) => mode === way.mode && budget === undefined);
    const speed = full < 0 ? undefined : rate(outcomes) / rate(of(full));
    return {
      way,
      policy: policies[way.policy],
      accuracy: accuracy(outcomes),
      byDepth: depths.map((depth) => accuracy(of(index, depth))),
      retained: mean(outcomes.map(({ retained }) => retained)),
      somewhere: mean(outcomes.map(({ retained }) => (retained > 0 ? 1 : 0))),
      memory: memory.get(index),
      speed: Number.isFinite(speed) ? speed : undefined,
    };
  });
}
