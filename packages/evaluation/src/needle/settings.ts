import { budgetOption, exactSlotsOf, formNames, isShare } from '@kv/core/engine';
import { count, list, maybe, oneOf, required, share, text, whole } from '@kv/core';
import type { Option, ResolvedOptions } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import { policySizes } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import type { ModelConfig } from '@kv/models';
import type { QuestionStyle, NeedleForm } from '@kv/tasks';
import { EXACT, type FileBudget } from '../cells/types.ts';

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
  budgets: list<FileBudget>(
    required(budgetOption('A budget.')) as Option<FileBudget>,
    ['12.5%', '25%', '50%'],
    "Slots per layer and KV head, shares of the prompt such as '25%' or '25% of f16', or bytes of the cache such as 64KiB.",
  ),
  cache: list<CacheForm>(
    oneOf(formNames, EXACT, 'A form.'),
    [EXACT],
    'How caches are stored: every policy at every budget in each of f32, f16, q8, k8v4 and q4 that is named.',
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
  readonly budget?: FileBudget;
  /** How its cache is stored. */
  readonly cache: CacheForm;
  readonly mode: Mode;
  /** Slots that the policy forces in every head, if they exceed the budget: the arm is then not run. */
  readonly forced?: number;
}

/** The properties of a compiled policy that arms depend on. */
export type RetentionBounds = Pick<CompiledPolicy, 'evicts' | 'least' | 'hooks' | 'levels' | 'steps'>;

/** Returns every arm of the settings, in the order in which results list them; `compiled` are its policies. */
export const armsOf = (
  { policies, budgets, cache: forms, modes }: NeedleSettings,
  compiled: readonly RetentionBounds[],
  config: Pick<ModelConfig, 'mixers'>,
): readonly NeedleArm[] =>
  modes.flatMap((mode) =>
    policies.flatMap((_, policy) =>
      forms.flatMap((cache): readonly NeedleArm[] => {
        const { evicts, least } = compiled[policy],
          sizes = policySizes(config, cache, compiled[policy]),
          arm = { policy, cache, mode };
        if (!evicts) return [arm];
        return budgets.map((budget) => {
          if (isShare(budget)) return { ...arm, budget };
          const slots = Math.floor(exactSlotsOf(budget, 1, sizes)),
            forced = least(Infinity, Math.max(1, slots));
          return { ...arm, budget, ...(forced > slots && { forced }) };
        });
      }),
    ),
  );

/** Returns the budget of an arm, and the form of its cache unless that is f32. */
export const budgetLabel = ({ budget, cache }: Pick<NeedleArm, 'budget' | 'cache'>): string =>
  `${budget ?? 'all'}${cache === EXACT ? '' : ` in ${cache}`}`;

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
