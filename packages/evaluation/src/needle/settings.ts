import { budgetOption } from '@kv/core/engine';
import { count, list, maybe, oneOf, required, share, text, whole } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import type { Budget } from '@kv/models';
import type { QuestionStyle, NeedleForm } from '@kv/tasks';

/**
 * `aware`: the question is inside the prompt before the eviction. `agnostic`: the document is evicted first, then asked
 * about.
 */
export type Mode = 'aware' | 'agnostic';
export type NeedleFormChoice = NeedleForm | 'both';

/**
 * Options of a needle table. Default policies have windows below the smallest budget, and wide pooling, since the
 * question attends only to the first token of a value.
 */
export const NEEDLE = {
  policies: list(
    text('', 'a policy', 'A policy.'),
    [
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
    "Policies, as 'kv run --policy' takes them; 'full' is always added.",
  ),
  budgets: list<Budget>(
    required(budgetOption('A budget.')),
    ['12.5%', '25%', '50%'],
    'Slots per layer and KV head, or shares of the prompt.',
  ),
  depths: list(share(0, 'A depth.'), [0.1, 0.5, 0.9], 'Where the fact stands, 0 (first) to 1 (last).'),
  prompts: count(50, 'prompts', 'Prompts at each depth; every policy, budget and mode answers them all.'),
  tokens: count(512, 'tokens', 'Length of every prompt.', { least: 64 }),
  seed: whole(0, 'n', 'Another seed gives other prompts.'),
  modes: list<Mode>(
    oneOf(['aware', 'agnostic'], 'aware', 'A mode.'),
    ['aware', 'agnostic'],
    'aware (question in the prompt), agnostic (question after the eviction).',
  ),
  form: oneOf<NeedleFormChoice>(
    ['code', 'number', 'both'],
    'both',
    'code (8 characters), number (7 digits) or both in turn.',
  ),
  asking: oneOf<QuestionStyle>(
    ['cued', 'free'],
    'cued',
    'cued (the prompt ends before the value) or free (it ends in a question, and the answer has to name the value).',
  ),
  distractors: whole(0, 'facts', 'Other facts of the same form in the text.', { most: 16 }),
  block: maybe(count(1, 'tokens', 'Prefill in blocks of this many tokens, an event after each.'), 'one block'),
};
/** Settings of the needle table. */
export interface NeedleTableOptions extends ResolvedOptions<typeof NEEDLE> {}

/** Everything that a result depends on. */
export interface NeedleSettings extends NeedleTableOptions {
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
export const armsOf = (
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
