import type { Budget } from '@kv/models';
import type { Asking, NeedleForm } from '@kv/tasks';

/**
 * `aware`: the question is inside the prompt before the eviction. `agnostic`: the document is evicted first, then asked
 * about.
 */
export type Mode = 'aware' | 'agnostic';
export const MODES: readonly Mode[] = ['aware', 'agnostic'];
export type Form = NeedleForm | 'both';

/** Everything that a result depends on. */
export interface Settings {
  readonly model: string;
  /** Digest of the model's files. */
  readonly weights: string;
  /** Name of the engine. */
  readonly engine: string;
  /** As `kv run --policy` takes them. */
  readonly policies: readonly string[];
  /** What the policies are made of: packages with their versions, modules with a digest of their files. */
  readonly code: readonly string[];
  readonly budgets: readonly Budget[];
  readonly depths: readonly number[];
  /** Prompts for every policy, budget, depth and mode. */
  readonly prompts: number;
  readonly tokens: number;
  readonly seed: number;
  readonly modes: readonly Mode[];
  readonly form: Form;
  readonly asking: Asking;
  readonly distractors: number;
}

/** One way of keeping the cache, asked in one mode. */
export interface Way {
  /** Index into `Settings.policies`. */
  readonly policy: number;
  /** Undefined where nothing is evicted. */
  readonly budget?: Budget;
  readonly mode: Mode;
}

/** Every way of the settings, in the order in which results list them; `evicts` says so for each policy. */
export const waysOf = ({ policies, budgets, modes }: Settings, evicts: readonly boolean[]): readonly Way[] =>
  modes.flatMap((mode) =>
    policies.flatMap((_, policy) =>
      evicts[policy] ? budgets.map((budget): Way => ({ policy, budget, mode })) : [{ policy, mode }],
    ),
  );

/** One prompt in all ways, or one way by itself on one prompt, for its memory. */
export interface Job {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  /** Run only this way, without sharing its prefill. */
  readonly alone?: number;
  /** Record what every way kept. */
  readonly example?: true;
}

/**
 * Jobs in an order in which the first ones already show everything: the example, every way alone, then one depth after
 * another.
 */
export function jobsOf({ depths, prompts }: Settings, ways: readonly Way[]): readonly Job[] {
  const middle = depths[Math.floor(depths.length / 2)];
  const trials = Array.from({ length: prompts }, (_, trial) =>
    depths.map(
      (depth): Job => ({
        id: `prompt/${depth}/${trial}`,
        depth,
        trial,
        ...(trial === 0 && depth === middle && { example: true as const }),
      }),
    ),
  ).flat();
  const alone = ways.map((_, way): Job => ({ id: `alone/${way}`, depth: middle, trial: 0, alone: way }));
  return [...trials.filter((job) => job.example), ...alone, ...trials.filter((job) => !job.example)];
}
