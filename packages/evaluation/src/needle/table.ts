import { KvError } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { answerRules, heldOutBook, sentencesOf } from '@kv/tasks';
import { filesOf } from '../sidecar-files.ts';
import type { Experiment } from '../jobs/experiment.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import type { NeedleResult } from './results.ts';
import { promptOf } from './run-job.ts';
import { jobsOf, needleDefaults, waysOf } from './settings.ts';
import type { NeedleJob, NeedleRunOptions, NeedleSettings, NeedleArm } from './settings.ts';
import { summarise } from './summary.ts';
import type { NeedleRow } from './summary.ts';

/** What a needle experiment comes to. */
export interface NeedleTable {
  readonly settings: NeedleSettings;
  readonly ways: readonly NeedleArm[];
  /** One a way, in their order. */
  readonly rows: readonly NeedleRow[];
  readonly results: readonly NeedleResult[];
}

/**
 * Facts hidden in a book: which policy still lets the model answer at which budget. All that can be checked before a
 * run is checked here.
 * @throws KvError in one sentence
 */
export async function needleTable(
  { name, engine, fingerprint, config, tokenizer, sidecar }: Subject,
  options: Partial<NeedleRunOptions> = {},
  { names, code }: PolicyNaming = {},
): Promise<Experiment<NeedleJob, NeedleResult, NeedleTable>> {
  const { policies: asked, ...rest } = { ...needleDefaults, ...options },
    { tokens, asking } = rest,
    // the full cache is what the others are compared with
    policies = [...new Set(['full', ...asked])];
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
  const ways = waysOf(settings, compiled),
    jobs = jobsOf(settings);
  checkFits(ways, compiled);
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
    conclude: (results) => ({ settings, ways, rows: summarise(settings, ways, results), results }),
  };
}

/** Ways that do not fit are left out of a table, but for one where no other is left. */
function checkFits(ways: readonly NeedleArm[], compiled: readonly CompiledPolicy[]): void {
  const cut = ways.flatMap((way) => (way.budget === undefined ? [] : [{ ...way, budget: way.budget }])),
    [first] = cut;
  if (first?.forced === undefined || cut.some(({ forced }) => forced === undefined)) return;
  expectBudget(compiled[first.policy], first.budget, 'budgets');
}
