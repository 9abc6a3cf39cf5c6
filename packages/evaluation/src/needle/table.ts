import { headDims } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { compile, expectBudget, settleOwn } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { formOf, policySizes } from '@kv/engine';
import { answerRules, heldOutBook, sentencesOf } from '@kv/tasks';
import { filesOf } from '../sidecar-files.ts';
import type { Experiment } from '../jobs/experiment.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import type { NeedleResult } from './results.ts';
import { promptOf } from './run-job.ts';
import { jobsOf, NEEDLE, armsOf } from './settings.ts';
import type { NeedleJob, NeedleSettings, NeedleArm } from './settings.ts';
import { summarise } from './summary.ts';
import type { NeedleRow } from './summary.ts';

/** The result of a needle experiment. */
export interface NeedleTable {
  readonly settings: NeedleSettings;
  readonly arms: readonly NeedleArm[];
  /** One per arm, in their order. */
  readonly rows: readonly NeedleRow[];
  readonly results: readonly NeedleResult[];
}

/**
 * Runs a needle experiment: hides facts in a book and tests which policy still lets the model answer at which budget.
 * Checks everything that it can before the run. @throws KvError in one sentence
 */
export async function needleTable(
  { name, engine, fingerprint, config, tokenizer, sidecar }: Subject,
  options: OptionValues<typeof NEEDLE> = {},
  { names, code }: PolicyNaming = {},
): Promise<Experiment<NeedleJob, NeedleResult, NeedleTable>> {
  const { policies: compared, ...rest } = settleOwn('needle', NEEDLE, options),
    { tokens, asking } = rest,
    // the others are compared with the full cache
    policies = [...new Set(['full', ...compared])];
  const read = await Promise.all(policies.map((text) => policyOf(text, names))),
    compiled = read.map(compile);
  const settings: NeedleSettings = {
    model: name,
    weights: fingerprint,
    engine,
    policies,
    code: [...((await code?.(policies)) ?? []), ...(await filesOf(read, { sidecar }))],
    ...rest,
  };
  const most = config.maxPositions - answerRules[asking].maxNewTokens;
  if (tokens > most)
    throw new KvError(
      'tokens',
      `expected at most ${most}, so that prompt and answer fit the context of ${name}, got ${tokens}`,
    );
  for (const form of rest.cache) formOf(form, { otherwise: form, headDims: headDims(config) });
  const arms = armsOf(settings, compiled, config),
    jobs = jobsOf(settings);
  checkFits(arms, compiled, config);
  try {
    promptOf({ tokenizer }, settings, sentencesOf(await heldOutBook()), jobs[0]);
  } catch (cause) {
    throw cause instanceof RangeError ? new KvError('tokens', cause.message.replace(/^needle: /, '')) : cause;
  }
  return {
    name: 'needle',
    settings,
    work: { kind: 'needle', settings },
    left: (results) => {
      const known = new Set(results.map(({ id }) => id));
      return jobs.filter(({ id }) => !known.has(id));
    },
    conclude: (results) => ({ settings, arms, rows: summarise(settings, arms, results), results }),
  };
}

/** Arms whose forced slots exceed the budget are left out of a table; it is an error if no other is left. */
function checkFits(arms: readonly NeedleArm[], compiled: readonly CompiledPolicy[], config: Subject['config']): void {
  const cut = arms.flatMap((arm) => (arm.budget === undefined ? [] : [{ ...arm, budget: arm.budget }])),
    [first] = cut;
  if (first?.forced === undefined || cut.some(({ forced }) => forced === undefined)) return;
  const policy = compiled[first.policy];
  expectBudget(policy, first.budget, {
    at: 'budgets',
    sizes: policySizes(config, first.cache, policy),
  });
}
