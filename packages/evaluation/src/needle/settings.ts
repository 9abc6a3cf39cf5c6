import type { Budget } from '@kv/models';
import type { QuestionStyle, NeedleForm } from '@kv/tasks';

/**
 * `aware`: the question is inside the prompt before the eviction. `agnostic`: the document is evicted first, then asked
 * about.
 */
export type Mode = 'aware' | 'agnostic';
export type NeedleFormChoice = NeedleForm | 'both';

/** What a needle table asks. */
export interface NeedleRunOptions {
  /** As texts; `full` is always among them. */
  readonly policies: readonly string[];
  readonly budgets: readonly Budget[];
  /** Where the fact stands, 0 (first) to 1 (last). */
  readonly depths: readonly number[];
  /** Prompts for every policy, budget, depth and mode. */
  readonly prompts: number;
  /** Length of every prompt. */
  readonly tokens: number;
  readonly seed: number;
  readonly modes: readonly Mode[];
  /** `both`: codes and numbers in turn. */
  readonly form: NeedleFormChoice;
  readonly asking: QuestionStyle;
  /** Other facts of the same form in the text. */
  readonly distractors: number;
  /** Prefill in blocks of so many tokens, each followed by an event. @defaultValue one shot */
  readonly block?: number | undefined;
}

/**
 * Policies with windows below the smallest budget; wide pooling, since the question's attention falls on the first
 * token of a value alone.
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
   * What results come from: packages with their versions and digests, modules with a digest of their files; and files
   * beside the model that policies read, with a digest of each.
   */
  readonly code: readonly string[];
  readonly model: string;
  /** What names the model's weights. */
  readonly weights: string;
  readonly engine: string;
}

/** One way of keeping the cache, asked in one mode. */
export interface NeedleArm {
  /** Index into the policies of the settings. */
  readonly policy: number;
  /** Undefined where nothing is evicted. */
  readonly budget?: Budget;
  readonly mode: Mode;
  /** Slots that the policy forces in every head, where they are more than the budget: this way is not run. */
  readonly forced?: number;
}

/** What ways depend on of a compiled policy. */
export interface RetentionBounds {
  readonly evicts: boolean;
  least(slots: number, budget: number): number;
}

/** Every way of the settings, in the order in which results list them; `compiled` are its policies. */
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

/** One prompt in all ways. */
export interface NeedleJob {
  readonly id: string;
  readonly depth: number;
  readonly trial: number;
  /** Record what every way kept. */
  readonly example?: true;
}

/** Jobs in an order in which the first ones already answer: the example, then one depth after another. */
export function jobsOf({ depths, prompts }: NeedleSettings): readonly NeedleJob[] {
  const middle = depths[Math.floor(depths.length / 2)];
  const all = Array.from({ length: prompts }, (_, trial) =>
    depths.map((depth): NeedleJob => ({ id: `prompt/${depth}/${trial}`, depth, trial })),
  ).flat();
  const example: NeedleJob = { id: `prompt/${middle}/0`, depth: middle, trial: 0, example: true };
  return [example, ...all.filter(({ id }) => id !== example.id)];
}
