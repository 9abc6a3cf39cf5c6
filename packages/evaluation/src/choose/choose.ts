import { KvError } from '@kv/core';
import { expectObject, expectOptions, showValue } from '@kv/core/engine';
import type { Model } from '@kv/models';
import { digestOf } from '../digest-of.ts';
import { groupBy, partsOf } from '../grouped.ts';
import { runAll } from '../jobs/run-pool.ts';
import type { Runner } from '../jobs/run-pool.ts';
import { sum } from '../numbers.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import type { Candidate } from './candidate.ts';
import { choiceOf, rankCandidates } from './choice.ts';
import type { Choice, ChoiceGoal } from './choice.ts';
import { affordable, costOf, laddersOf, middleOf, stillIn } from './ladders.ts';
import type { Ladder } from './ladders.ts';
import type { ChoicePrompt } from './prompts.ts';
import { Results } from './results.ts';
import type { ChoiceState } from './results.ts';
import { inThisThread } from './runners.ts';
import type { ChoiceJob, ChoiceResult, ChoiceWork } from './run-text.ts';
import { clustersOf, splitPrompts } from './split.ts';

/** Options of `choose`. */
export interface ChooseOptions {
  /**
   * Policies at budgets, the most promising first: what time does not allow is left out from the end. For a loss, each
   * policy at several budgets; for a budget, what fits it.
   */
  readonly candidates: readonly Candidate[];
  /** What is looked for: the least loss within a budget, or the fewest bytes within a loss. */
  readonly goal: ChoiceGoal;
  /** How long it may take; Infinity asks everything. @defaultValue 10 */
  readonly minutes?: number;
  /** Another seed splits the prompts otherwise. @defaultValue 0 */
  readonly seed?: number | string;
  /** The longest answer, in tokens, of prompts that do not say their own. @defaultValue 32 */
  readonly answerTokens?: number;
  /** Level of the intervals, and of the race. @defaultValue 0.95 */
  readonly level?: number;
  /** Starts what runs jobs, such as `threads(program, data)`. @defaultValue this thread, with the model given */
  readonly start?: (work: ChoiceWork) => Runner<ChoiceJob, ChoiceResult>;
  /** Number of runners. @defaultValue 1 */
  readonly size?: number;
  /** State of a choice that was stopped: it goes on from there. It is checked. @defaultValue none: it begins */
  readonly state?: unknown;
  /** Names that policy texts may use, in this thread. @defaultValue the catalogue of `@kv/policies` */
  readonly names?: PolicyNaming['names'];
  /** As of other experiments: a state that other code came to is refused. @defaultValue nothing */
  readonly code?: PolicyNaming['code'];
  /** Stops it: the choice so far is returned. */
  readonly signal?: AbortSignal | undefined;
  /** Called after each text, and when a round begins. */
  readonly onProgress?: ((progress: ChoiceProgress) => void) | undefined;
}

/** How far a choice is. */
export interface ChoiceProgress {
  readonly phase: 'choosing' | 'confirming';
  /** Texts that were read, and all that may be. */
  readonly done: number;
  readonly total: number;
  /** What is being asked: the round of the phase, and of how many, and the texts and candidates that it has left. */
  readonly round: number;
  readonly rounds: number;
  readonly texts: number;
  readonly candidates: number;
  /** Predicted; above 0 while texts are left. */
  readonly secondsLeft: number;
  /** The choice so far. */
  readonly choice: Choice;
  /** What a later choice goes on from, as plain data. */
  readonly state: ChoiceState;
}

const OPTIONS: Readonly<Record<keyof ChooseOptions, true>> = {
  ...{ candidates: true, goal: true, minutes: true, seed: true, answerTokens: true, level: true, start: true },
  ...{ size: true, state: true, names: true, code: true, signal: true, onProgress: true },
};

/** Texts that are read between two looks at the results, at most. */
const ROUND = 4;
/** Questions about one text that a job asks, at most. */
const QUESTIONS = 4;
/** Candidates that are asked the prompts that confirm. */
const CONFIRMED = 8;
/** Candidates that are asked first, to learn how long one takes. */
const FIRST = 4;

/** Prompts, by number, that read the same tokens. */
type Text = readonly number[];

/**
 * Chooses a policy for a model and prompts: the least loss within a budget, and of those that lose as much to within one
 * text the least divergence; or the fewest bytes within a loss.
 *
 * Prompts are split once, by document. Those that choose are read in rounds. After each, what is shown to be worse leaves,
 * and where time is short a round takes half of what is left, for as many of the best as that allows (successive halving,
 * Karnin et al. 2013). For a loss, a third of the texts try each policy at one budget, the middle of those that are not
 * shown to lose more, and the others try all of these. The best few are then asked the prompts that confirm, which have no
 * say in which is chosen: the interval of the choice is of these. With enough time, equal prompts, candidates and seeds
 * give equal choices.
 *
 * @param model a loaded model, or, with `start`, what its files say
 * @returns the choice; after an abort the one so far
 * @throws KvError for what is no model or list of prompts, prompts of one document alone, prompts that are all the same or
 * do not fit the model, answers none of which has the form that its grader reads, and a state of something else
 */
export async function choose(
  model: Subject | Model,
  prompts: readonly ChoicePrompt[],
  options: ChooseOptions,
): Promise<Choice> {
  expectObject({ name: 'choose' }, 'a model or what its files say', model);
  expectObject({ name: 'choose' }, 'options such as { candidates, goal }', options);
  expectOptions('choose', OPTIONS, options);
  for (const [name, list] of Object.entries({ prompts, candidates: options.candidates }))
    if (!Array.isArray(list)) throw new KvError('choose', `expected ${name} as a list, got ${showValue(list)}`);
  expectGoal(options.goal);
  expectNumbers(options);
  const { candidates, goal, minutes = 10, seed = 0, answerTokens = 32, level = 0.95, size = 1, signal } = options,
    work: ChoiceWork = { kind: 'choose', prompts, candidates, answerTokens };
  expectChoosable(model, work);
  const split = splitPrompts(prompts, seed),
    facts = { model: model.name, engine: model.engine, seed, goal, level, prompts, candidates, split },
    results = new Results(work, split.choosing),
    code = (await options.code?.([...new Set(candidates.map(({ policy }) => policy))])) ?? [],
    of = [[model.fingerprint, model.engine], [prompts, answerTokens], candidates, code, seed].map(digestOf).join(' ');
  if (options.state !== undefined) results.restore(options.state, of);
  const choosing = roundsOf(textsOf(split.choosing, prompts)),
    confirming = textsOf(split.confirming, prompts),
    texts = [...choosing.flat(), ...confirming],
    promptsPerText = prompts.length / texts.length,
    started = performance.now(),
    seconds = (): number => (performance.now() - started) / 1000,
    left = (): number => 60 * minutes - seconds();
  let phase: ChoiceProgress['phase'] = 'choosing',
    ladders = laddersOf(candidates, goal),
    done = false;
  /** Returns what there is to ask of texts, each with what it was not asked. */
  const jobsOf = (some: readonly Text[], asked: readonly Ladder[]): readonly ChoiceJob[] =>
    some
      .map((text) => ({ prompts: text, ladders: asked.filter((ladder) => !results.has(text, ladder)) }))
      .filter((job) => job.ladders.length > 0);
  /** Predicts how long it takes to ask candidates of texts. */
  const secondsOf = (some: readonly Text[], asked: readonly Ladder[]): number => {
    const { full, perCost } = results.pace,
      cost = (job: ChoiceJob): number => promptsPerText * sum(job.ladders.map((ladder) => costOf(ladder, candidates)));
    return sum(jobsOf(some, asked).map((job) => full + perCost * cost(job))) / 1000 / size;
  };
  const finalists = (): readonly Ladder[] =>
    rankCandidates(facts, results)
      .filter(({ loss }) => loss < Infinity)
      .slice(0, CONFIRMED)
      .map(({ candidate }) => [candidate]);
  const isRead = ([first]: Text): boolean => results.references[first] !== undefined,
    confirmSeconds = (): number => Math.min(secondsOf(confirming, finalists()), 15 * minutes),
    isOver = (): boolean =>
      phase === 'choosing'
        ? choosing.flat().some(isRead) && left() <= confirmSeconds()
        : confirming.some(isRead) && left() <= 0;
  let [round, rounds] = [0, 0],
    open: readonly ChoiceJob[] = [];
  const secondsLeft = (): number => {
    const all = confirmSeconds() + (phase === 'choosing' ? secondsOf(choosing.flat(), ladders) : 0);
    return Math.max(Math.min(left(), all), open.length > 0 ? 1 : 0);
  };
  const choice = (): Choice => choiceOf(facts, results, { alive: new Set(ladders.flat()), done, seconds: seconds() });
  const report = (): void =>
    options.onProgress?.({
      ...{ phase, done: texts.filter(isRead).length, total: texts.length },
      ...{ round, rounds, texts: open.length },
      candidates: new Set(open.flatMap((job) => job.ladders.flat())).size,
      secondsLeft: secondsLeft(),
      get choice() {
        return choice();
      },
      get state() {
        return results.state(of);
      },
    });
  const runners: Runner<ChoiceJob, ChoiceResult>[] = [];
  const ask = (some: readonly Text[], asked: readonly Ladder[]): Promise<void> => {
    const jobs = jobsOf(some, asked);
    open = jobs;
    if (jobs.length > 0 && texts.some(isRead)) report();
    return runAll(runners, jobs, {
      ...{ isOver, signal },
      onResult(result) {
        results.add(result);
        open = jobs.filter((job) => job.ladders.some((ladder) => !results.has(job.prompts, ladder)));
        report();
      },
    });
  };

  const look = (seen: readonly Text[]): void => {
    const some = seen.flat();
    ladders = stillIn(ladders, results, { ...facts, prompts: some, clusters: clustersOf(some, prompts) });
  };

  try {
    const start = options.start ?? inThisThread(model, options.names);
    while (runners.length < Math.min(size, texts.length)) runners.push(start(work));
    const pace = choosing[0].slice(0, 1);
    await ask(pace, ladders.slice(0, FIRST).map(middleOf));
    look(pace);
    rounds = choosing.length;
    for (const [r, some] of choosing.entries()) {
      round = r + 1;
      const atMiddle = choosing.length > 1 && r < choosing.length / 3,
        rungs = (all: readonly Ladder[]): readonly Ladder[] => (atMiddle ? all.map(middleOf) : all),
        time = (left() - confirmSeconds()) / (r === choosing.length - 1 ? 1 : 2);
      if (ladders.length === 0 || isOver()) break;
      ladders = affordable(ladders, time, (best) => secondsOf(some, rungs(best)));
      await ask(some, rungs(ladders));
      expectForm(prompts, results);
      look(choosing.slice(0, r + 1).flat());
    }
    phase = 'confirming';
    [round, rounds] = [1, 1];
    const best = affordable(finalists(), left(), (some) => secondsOf(confirming, some));
    await ask(confirming, best);
    done = confirming.every((text) => results.has(text, best.flat()));
  } catch (error) {
    if (!signal?.aborted) throw error;
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
  return choice();
}

/** Groups prompts that read the same tokens, a few together, so that a job takes a bounded time. */
const textsOf = (some: readonly number[], prompts: readonly ChoicePrompt[]): readonly Text[] =>
  [...groupBy(some, (prompt) => prompts[prompt].ids.join()).values()].flatMap((text) => partsOf(text, QUESTIONS));

/** Cuts texts into rounds: three at least, so that there is something to learn from, of a few texts each. */
const roundsOf = (texts: readonly Text[]): readonly (readonly Text[])[] =>
  partsOf(texts, Math.min(ROUND, Math.ceil(texts.length / 3)));

/** @throws KvError unless a goal is one budget, or one loss that is a share */
function expectGoal(goal: unknown): void {
  expectObject({ name: 'choose' }, "a goal such as { budget: '25%' } or { lose: 0.01 }", goal);
  const { budget, lose } = goal as { readonly budget?: unknown; readonly lose?: unknown };
  if ((budget === undefined) === (lose === undefined))
    throw new KvError(
      'goal',
      `expected either a budget or a loss, got ${budget === undefined ? 'neither' : 'both'}: { budget: '25%' } or { lose: 0.01 }`,
    );
  if (lose !== undefined && !(typeof lose === 'number' && lose >= 0 && lose < 1))
    throw new KvError('goal.lose', `expected a share from 0 to below 1, such as 0.01 for 1 %, got ${showValue(lose)}`);
}

/** @throws KvError for options that are no such numbers */
function expectNumbers({ minutes = 10, answerTokens = 32, level = 0.95, size = 1, onProgress }: ChooseOptions): void {
  const expect = (name: string, holds: boolean, want: string, got: unknown): void => {
    if (!holds) throw new KvError(name, `expected ${want}, got ${showValue(got)}`);
  };
  expect('minutes', typeof minutes === 'number' && minutes > 0, 'a time above 0, or Infinity', minutes);
  expect('answerTokens', Number.isInteger(answerTokens) && answerTokens > 0, 'a whole number above 0', answerTokens);
  expect('level', typeof level === 'number' && level > 0 && level < 1, 'a share such as 0.95', level);
  expect('size', Number.isInteger(size) && size > 0, 'a whole number of runners above 0', size);
  expect(
    'onProgress',
    onProgress === undefined || typeof onProgress === 'function',
    'a function that is called with the progress',
    onProgress,
  );
}

/** Checks what can be checked before anything runs. */
function expectChoosable({ name, config }: Subject | Model, { prompts, candidates, answerTokens }: ChoiceWork): void {
  const { maxPositions } = (config as Model['config'] | undefined) ?? {};
  if (maxPositions === undefined)
    throw new KvError('choose', 'expected a loaded model or what its files say, got an object without a config');
  if (candidates.length === 0) throw new KvError('candidates', 'expected at least one, got none');
  if (prompts.length < 2)
    throw new KvError(
      'prompts',
      `expected at least two, one that chooses and one that confirms, got ${prompts.length}`,
    );
  for (const [i, prompt] of prompts.entries())
    if (!Array.isArray((prompt as Partial<ChoicePrompt> | undefined)?.ids))
      throw new KvError('prompts', `expected prompts as readPrompts gives them, got ${showValue(prompt)} at ${i}`);
  for (const [i, one] of candidates.entries())
    if (typeof (one as Partial<Candidate> | undefined)?.policy !== 'string')
      throw new KvError('candidates', `expected candidates as candidatesOf gives them, got ${showValue(one)} at ${i}`);
  for (const { ids, question = [], answers, origin, ...own } of prompts) {
    const answer = own.answerTokens ?? answerTokens,
      length = ids.length + question.length + answer;
    if (ids.length === 0) throw new KvError(origin, 'expected a prompt with tokens, got an empty one');
    if (length > maxPositions)
      throw new KvError(
        origin,
        `expected a prompt that fits the ${maxPositions} tokens of ${name} with an answer of ${answer}, got ${length - answer} tokens`,
      );
    if (answers?.some((one) => one.trim() === '') || answers?.length === 0)
      throw new KvError(origin, 'expected answers with text, got an empty one');
  }
  const said = new Set(prompts.map(({ ids, question = [] }) => JSON.stringify([ids, question])));
  if (said.size === 1)
    throw new KvError('prompts', `expected different prompts, got the same one ${prompts.length} times`);
  const documents = new Set(prompts.map(({ document }) => document));
  if (documents.size === 1)
    throw new KvError(
      'prompts',
      `expected prompts of at least two documents, one that chooses and one that confirms, got ${prompts.length} prompts of one: add texts, or give rows of different ones a 'document' each`,
    );
}

/** @throws KvError if no answer of the full cache has the form that its grader reads */
function expectForm(prompts: readonly ChoicePrompt[], { references }: Results): void {
  const asked = references.flatMap((reference, i) => (reference ? [{ reference, prompt: prompts[i] }] : []));
  if (asked.some(({ reference }) => reference.parsed !== false)) return;
  const graders = [...new Set(asked.map(({ prompt: { grader = 'words' } }) => grader))].join(', ');
  throw new KvError(
    'prompts',
    `expected answers that the grader ${graders} can read, got none in ${asked.length} of the full cache: name another grader or allow longer answers`,
  );
}
