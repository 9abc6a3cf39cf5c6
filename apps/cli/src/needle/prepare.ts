import { compile, KvError } from '@kv/core';
import type { Compiled } from '@kv/core';
import { openCheckpoint, slotsOf } from '@kv/models';
import type { Budget } from '@kv/models';
import { answerRules, heldOutBook, sentencesOf } from '@kv/tasks';
import type { Asking } from '@kv/tasks';
import { openRuntime } from '../engine.ts';
import type { EngineChoice } from '../engine.ts';
import { checkpointPath, resolveModel } from '../model-source.ts';
import { policyCode } from '../policy/policy-code.ts';
import { resolvePolicy } from '../policy/resolve-policy.ts';
import type { Terminal } from '../terminal.ts';
import { promptOf } from './experiment.ts';
import { jobsOf, MODES, waysOf } from './settings.ts';
import type { Form, Job, Mode, Settings, Way } from './settings.ts';
import { weightsDigest } from './weights-digest.ts';

/** What `kv needle` is asked for. */
export interface NeedleOptions {
  readonly model: string;
  readonly engine: EngineChoice;
  readonly policies: readonly string[];
  readonly budgets: readonly Budget[];
  readonly depths: readonly number[];
  readonly prompts: number;
  readonly tokens: number;
  readonly mode: Mode | 'both';
  readonly form: Form;
  readonly asking: Asking;
  readonly distractors: number;
  readonly seed: number;
  readonly workers: number;
  readonly out?: string;
  readonly fresh?: true;
}

/** Tokens of the longest question: a share of the document is a little less than one of the prompt. */
const QUESTION = 32;

/**
 * Settles what will be run, after checking all that can be checked before.
 * @throws KvError in one sentence
 */
export async function prepare(
  options: NeedleOptions,
  terminal: Terminal,
): Promise<{
  readonly settings: Settings;
  readonly ways: readonly Way[];
  readonly jobs: readonly Job[];
  readonly path: string;
}> {
  const { cwd } = terminal;
  const { model, budgets, depths, prompts, tokens, seed, mode, form, asking, distractors } = options;
  // The full cache is what the others are compared with.
  const policies = [...new Set(['full', ...options.policies])];
  const compiled = await Promise.all(policies.map(async (text) => compile(await resolvePolicy(text, { cwd }))));
  for (const policy of compiled)
    for (const budget of budgets) checkFloor(policy, slotsOf(budget, tokens - QUESTION), String(budget));
  // Weights are the workers' business: headers, configuration and tokenizer are enough here.
  const path = await resolveModel(model, terminal),
    { config, tokenizer, close } = await openCheckpoint(checkpointPath(path), { signal: terminal.signal });
  await close();
  const most = config.maxPositions - answerRules[asking].newTokens;
  if (tokens > most)
    throw new KvError(
      '--tokens',
      `expected at most ${most}, so that prompt and answer fit the context of ${model}, got ${tokens}`,
    );
  const settings: Settings = {
    model,
    weights: await weightsDigest(path),
    engine: await engineName(options.engine, cwd),
    policies,
    code: await policyCode(policies, cwd),
    budgets,
    depths,
    prompts,
    tokens,
    seed,
    modes: mode === 'both' ? MODES : [mode],
    form,
    asking,
    distractors,
  };
  const ways = waysOf(
      settings,
      compiled.map(({ evicts }) => evicts),
    ),
    jobs = jobsOf(settings, ways);
  try {
    promptOf({ model: { tokenizer }, settings, sentences: sentencesOf(await heldOutBook()) }, jobs[0]);
  } catch (cause) {
    throw cause instanceof RangeError ? new KvError('--tokens', cause.message.replace(/^needle: /, '')) : cause;
  }
  return { settings, ways, jobs, path };
}

/** The name of an engine, as results and reports say it: of a GPU its adapter too. */
export async function engineName(choice: EngineChoice, cwd: string): Promise<string> {
  const { name, close } = await openRuntime(choice, cwd, 1);
  close();
  return name;
}

function checkFloor(policy: Compiled, slots: number, budget: string): void {
  const floor = policy.floor(Number.MAX_SAFE_INTEGER, slots);
  if (policy.evicts && floor > slots)
    throw new KvError(
      '--budgets',
      `expected at least ${floor} slots, which '${policy.label}' forces in every head, got ${budget} (${slots} slots)`,
    );
}
