import type { Budget } from '@kv/models';
import type { QuestionStyle, NeedleForm } from '@kv/tasks';

/**
 * `aware`: the question is inside the prompt before the eviction. `agnostic`: the document is evicted first, then asked
 * about.
 */
export type Mode = 'aware' | 'agnostic';
export type NeedleFormChoice = NeedleForm | 'both';

/** Options of a needle table. */
export interface NeedleRunOptions {
  /** Policy texts; `full` is always added. */
  readonly policies: readonly string[];
  /** Slots per layer and KV head, or shares of the prompt. */
  readonly budgets: readonly Budget[];
  /** Depths of the fact, 0 (start) to 1 (end). */
  readonly depths: readonly number[];
  /** Number of prompts for every policy, budget, depth and mode. */
  readonly prompts: number;
  /** Tokens of every prompt. */
  readonly tokens: number;
  /** Seed of the prompts. */
  readonly seed: number;
  /** Where the question comes. */
  readonly modes: readonly Mode[];
  /** `both` alternates codes and numbers. */
  readonly form: NeedleFormChoice;
  /** Style of the question. */
  readonly asking: QuestionStyle;
  /** Number of other facts of the same form in the text. */
  readonly distractors: number;
  /** Prefill in blocks of this many tokens, each followed by an event. @defaultValue one block */
  readonly block?: number | undefined;
}

/**
 * Default policies have windows below the smallest budget, and wide pooling, since the question attends only to the
 * first token of a value.
 */
export const needleDefaults: NeedleRunOptions = {
  policies: [
    'full',
    'streaming',
    'random',
    'knorm',
    'h2o',
    'tova',
    'snapkv(window=16,kernel=17,pooling=max)',
    'snapkvCaote(window=16,kernel=17,pooling=max)',
    'pyramidal(window=16,kernel=17)',
    'taFast(reach=12,slots=24)',
  ],
  budgets: ['12.5%', '25%', '50%'],
  depths: [0.1, 0.5, 0.9],
  prompts: 50,
  tokens: 512,
  seed: 0,
  modes: ['aware', 'agnostic'],
  form: 'both',
  asking: 'cued',
  distractors: 0,
};

/** Everything that a result depends on. */
export interface NeedleSettings extends NeedleRunOptions {
  /**
   * The code that produces results: packages with versions and digests, modules with a digest of their files; and files
   * stored with the model that policies read, with a digest of each.
   */
  readonly code: readonly string[];
  readonly model: string;
  /** Digest of the model's weights. */
  readonly weights: string;
  readonly engine: string;
}

/** A policy at a budget, in one mode. */
export interface NeedleArm {
  /** Index into the policies of the settings. */
  readonly policy: number;
  /** Undefined if nothing is evicted. */
  readonly budget?: Budget;
  readonly mode: Mode;
  /** Slots that the policy forces in every head, if they exceed the budget: the arm is then not run. */
  readonly forced?: number;
}

/** The properties of a compiled policy that arms depend on. */
export interface RetentionBounds {
  readonly evicts: boolean;
  least(slots: number, budget: number): number;
}

/** Returns every arm of the settings, in the order in which results list them; `compiled` are its policies. */
export const waysOf = (
  { policies, budgets, modes }: NeedleSettings,
  compiled: readonly RetentionBounds[],
): readonly NeedleArm[] =>
  modes.flatMap((mode) =>
    policies.flatMap((_, policy): readonly NeedleArm[] => {
      const { evicts, least } = compiled[policy];
      if (!evicts) return [{ policy, mode }];
      return budgets.map((budget) => {
        const forced = typeof budget === 'number' ? least(Infinity, budget) : 0;
        return { policy, budget, mode, ...(forced > Number(budget) && { forced }) };
      });
    }),
  );

/** One prompt, to be answered by all arms. */
export interface NeedleJob {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  /** Whether to record what every arm kept. */
  readonly example?: true;
}

/** Returns the jobs in an order whose first already give answers: the example, then one depth after another. */
export function jobsOf({ depths, prompts }: NeedleSettings): readonly NeedleJob[] {
  const middle = depths[Math.floor(depths.length / 2)];
  const all = Array.from({ length: prompts }, (_, trial) =>
    depths.map((depth): NeedleJob => ({ id: `prompt/${depth}/${trial}`, depth, trial })),
  ).flat();
  const example: NeedleJob = { id: `prompt/${middle}/0`, depth: middle, trial: 0, example: true };
  return [example, ...all.filter(({ id }) => id !== example.id)];
}
