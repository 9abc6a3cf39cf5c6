import { headDims } from '@kv/checkpoints';
import { KvError } from '@kv/core';
import { compile, expectBudget } from '@kv/core/engine';
import type { CompiledPolicy } from '@kv/core/engine';
import { formOf, policySizes } from '@kv/engine';
import type { CacheForm } from '@kv/engine';
import { interpolate, pairedDifference } from '@kv/tasks';
import type { Interval } from '@kv/tasks';
import { cellsOf, checkFits } from '../cells/experiment.ts';
import { agree, rebudget, ROUNDS } from '../cells/rebudget.ts';
import { isRead, natsOf } from '../cells/perplexity.ts';
import { cellId, EXACT, generationOf } from '../cells/types.ts';
import type { Cell, CellResult, FileBudget, Tasks } from '../cells/types.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import { byProblem, intervalOf } from '../grouped.ts';
import { mean } from '../numbers.ts';
import { isDev } from '../protocol/split.ts';
import { armSummary } from '../protocol/statistics.ts';
import type { ArmSummary } from '../protocol/statistics.ts';
import { measureOf } from './measure.ts';
import type { Sweep } from './sweep.ts';

interface Perplexity extends Partial<Interval> {
  readonly value: number;
}

/** The result of one policy at one budget on one task, over its problems and seeds. */
export interface SweepRow extends ArmSummary {
  readonly model: string;
  readonly task: string;
  readonly policy: string;
  /** As in the sweep; absent if nothing is evicted. */
  readonly budget?: FileBudget;
  /** The policy changes what is read in other ways than by evicting: it hides slots, freezes tokens or corrects outputs. */
  readonly alters?: true;
  /** How its caches are stored; absent if the sweep names no forms. */
  readonly cache?: CacheForm;
  /** With `match`: the budget in slots that was found. */
  readonly slots?: number;
  /** With `match`: whether mean caches, or bytes, agree within the tolerance, over all problems. */
  readonly matched?: boolean;
  readonly problems: number;
  /** Number of answers: one per problem and seed. */
  readonly samples: number;
  /**
   * 95 % interval over problems: Wilson's if all have as many answers and those of every one are all right or all wrong,
   * else the bootstrap's.
   */
  readonly interval?: Interval;
  /**
   * For a text that is read: the perplexity of all tokens together, with the 95 % bootstrap interval over its windows,
   * which one window, or several that read alike, have none of.
   */
  readonly perplexity?: Perplexity;
  /**
   * With `match`: accuracy minus that of the matched policy's curve at the same mean cache or bytes, negative if it is worse;
   * absent outside the curve, and for a text that is read.
   */
  readonly shortfall?: number;
}

/** Rows, and every sample that they summarize, by model. */
export interface SweepAnswers {
  readonly rows: readonly SweepRow[];
  readonly samples: Readonly<Record<string, readonly CellResult[]>>;
}

type Answers = (cells: readonly Cell[]) => Promise<readonly CellResult[]>;

/** The policy and budget of a row, and those it is compared with. */
interface Way {
  readonly task: string;
  readonly policy: string;
  readonly budget?: FileBudget;
  readonly alters?: true;
  readonly cache?: CacheForm;
  readonly slots?: number;
}

/**
 * Runs a sweep on one model and returns its rows and samples. With `match`, first finds budgets on dev ids alone, or on
 * all ids of a task that has no dev ids.
 */
export async function sweepModel(
  model: string,
  sweep: Sweep,
  tasks: Tasks,
  answers: Answers,
  names: PolicyNaming['names'],
): Promise<{ readonly rows: readonly SweepRow[]; readonly samples: readonly CellResult[] }> {
  const { seeds = [0], match } = sweep,
    within = match?.within ?? 0.01,
    arms: Way[] = [];
  for (const arm of await armsOf(sweep, tasks, names)) arms.push({ ...arm, ...(await matchedSlots(arm)) });

  async function matchedSlots({ task, policy, budget, cache }: Way): Promise<Pick<Way, 'slots'>> {
    if (!match || budget === undefined) return {};
    // slots agree in every form
    const target = match.bytes ? sweep.caches?.[0] : cache;
    if (policy === match.policy && cache === target) return typeof budget === 'number' ? { slots: budget } : {};
    const some = matchedOn(tasks[task]).map(({ id }) => ({ task, id })),
      at = async (of: Pick<Way, 'policy' | 'cache'>, given: FileBudget): Promise<ArmSummary> =>
        armSummary(await answers(await cellsOf([{ ...of, budgets: [given] }], some, seeds.slice(0, 1), names)));
    const base = await at({ policy: match.policy, ...(target && { cache: target }) }, budget),
      start = typeof budget === 'number' ? budget : base.meanSlots;
    const found = await rebudget(measureOf(base, match), start, within, async (slots) =>
      measureOf(await at({ policy, ...(cache && { cache }) }, slots), match),
    );
    return { slots: found.budget };
  }

  const asked = await Promise.all(
    arms.map(({ task, policy, budget, cache, slots }) =>
      cellsOf(
        [{ policy, budgets: [slots ?? budget ?? 1], cache }],
        askedOf(sweep, tasks, task).map(({ id }) => ({ task, id })),
        seeds,
        names,
      ),
    ),
  );
  // all at once, so that every thread has work; two arms with the same budget share their samples
  const samples = await answers(asked.flat()),
    known = new Map(samples.map((sample) => [cellId(sample), sample])),
    summed = arms.map((arm, i) => ({ arm, results: asked[i].map((cell) => known.get(cellId(cell))!) })); // all were asked for
  const rows = summed.map(({ arm, results }): SweepRow => {
    const read = tasks[arm.task].every(isRead),
      scores = byProblem(results);
    return {
      model,
      ...arm,
      ...armSummary(results),
      problems: scores.length,
      samples: results.length,
      ...(read ? { perplexity: perplexityOf(results) } : { interval: intervalOf(scores) }),
    };
  });
  return {
    rows: match
      ? rows.map((row) => compared(row, rows, { ...match, within, ...(match.bytes && { cache: sweep.caches?.[0] }) }))
      : rows,
    samples,
  };
}

function perplexityOf(results: readonly CellResult[]): Perplexity {
  const { difference, low, high } = pairedDifference(byProblem(results, natsOf));
  return { value: Math.exp(difference), ...(low < high && { low: Math.exp(low), high: Math.exp(high) }) };
}

/** Returns every policy at every budget in every form on every task; a policy that evicts nothing once in each form. */
async function armsOf(
  { policies, budgets, caches }: Sweep,
  tasks: Tasks,
  names: PolicyNaming['names'],
): Promise<readonly Way[]> {
  const compiled = await Promise.all(
    policies.map(async (text) => {
      const policy = compile(await policyOf(text, names));
      for (const budget of budgets) expectBudget(policy, budget, { at: 'budgets' });
      return policy;
    }),
  );
  return Object.keys(tasks).flatMap((task) =>
    policies.flatMap((policy, i) =>
      (caches ?? [undefined]).flatMap((cache): Way[] => {
        const way = { task, policy, ...(cache && { cache }), ...(alters(compiled[i]) && { alters: true as const }) };
        return compiled[i].evicts ? budgets.map((budget) => ({ ...way, budget })) : [way];
      }),
    ),
  );
}

/** Whether a policy reads less, or other values, than the full cache where it evicts nothing. */
const alters = (policy: CompiledPolicy): boolean =>
  policy.hooks('view').length > 0 ||
  policy.hooks('freeze').length > 0 ||
  (!policy.evicts && policy.hooks('attend').length > 0);

/** Returns the problems on which budgets are found: the dev problems, or all if there are none. */
function matchedOn(problems: Tasks[string]): Tasks[string] {
  const dev = problems.filter(isDev);
  return dev.length > 0 ? dev : problems;
}

/** Returns the problems of a task that a sweep asks. @throws KvError if its part has none */
function askedOf({ part }: Sweep, tasks: Tasks, task: string): Tasks[string] {
  const asked = tasks[task].filter((problem) => part === undefined || isDev(problem) === (part === 'dev'));
  if (asked.length === 0)
    throw new KvError(task, `expected ids to ${part === 'dev' ? 'choose' : 'confirm'} on, got none`);
  return asked;
}

/**
 * Checks a sweep on one model before anything is run. @throws KvError for a policy without a budget, a task without
 * problems of the part, or a problem that does not fit
 */
export async function checkAsked(
  sweep: Sweep,
  subject: Pick<Subject, 'name' | 'config' | 'tokenizer'>,
  tasks: Tasks,
  names: PolicyNaming['names'],
): Promise<void> {
  for (const { policy: text, budget, cache = EXACT } of await armsOf(sweep, tasks, names)) {
    const policy = compile(await policyOf(text, names)),
      { config } = subject;
    formOf(cache, { otherwise: cache, headDims: headDims(config) });
    if (budget !== undefined)
      expectBudget(policy, budget, {
        at: 'budgets',
        sizes: policySizes(config, cache, policy),
      });
  }
  for (const task of Object.keys(tasks)) {
    const asked = new Set([...askedOf(sweep, tasks, task), ...(sweep.match ? matchedOn(tasks[task]) : [])]);
    for (const problem of asked) checkFits(subject, task, problem, generationOf(sweep));
  }
}

/** Predicted cost of a sweep on one model. */
export interface SweepCost {
  /** Cells of the rows. */
  readonly cells: number;
  readonly seconds: number;
  /** With `match`: an upper bound of the cost of finding budgets. */
  readonly matching: { readonly cells: number; readonly seconds: number };
}

/**
 * Predicts the cost of a sweep from a few problems under every policy at every budget; `time` runs cells and returns
 * the seconds each takes on a warm and fully loaded machine.
 */
export async function sweepCost(
  sweep: Sweep,
  tasks: Tasks,
  problems: number,
  time: (cells: readonly Cell[]) => Promise<readonly number[]>,
  names: PolicyNaming['names'],
): Promise<SweepCost> {
  const { seeds = [0], match, caches } = sweep,
    matching = { cells: 0, seconds: 0 },
    whole = { cells: 0, seconds: 0 },
    arms = await armsOf(sweep, tasks, names),
    some = await Promise.all(
      arms.map(({ task, policy, budget, cache }) =>
        cellsOf(
          [{ policy, budgets: [budget ?? 1], cache }],
          askedOf(sweep, tasks, task)
            .slice(0, problems)
            .map(({ id }) => ({ task, id })),
          seeds.slice(0, 1),
          names,
        ),
      ),
    ),
    seconds = [...(await time(some.flat()))]; // all at once, as in the sweep itself
  for (const [i, { task, policy, budget, cache }] of arms.entries()) {
    const asked = askedOf(sweep, tasks, task),
      each = mean(seconds.splice(0, some[i].length)),
      rounds =
        !match || budget === undefined
          ? 0
          : policy === match.policy && (!match.bytes || cache === caches?.[0])
            ? 1
            : ROUNDS;
    for (const [sum, count] of [
      [whole, asked.length * seeds.length],
      [matching, rounds * matchedOn(tasks[task]).length],
    ] as const) {
      sum.cells += count;
      sum.seconds += count * each;
    }
  }
  return { ...whole, matching };
}

/** Adds to a row how it compares with the matched policy's curve, in its own form or in this one. */
function compared(
  row: SweepRow,
  rows: readonly SweepRow[],
  {
    cache = row.cache,
    within,
    ...match
  }: Required<Pick<Sweep, 'match'>>['match'] & { readonly cache?: CacheForm | undefined },
): SweepRow {
  if (row.budget === undefined) return row;
  const curve = rows.filter((one) => one.task === row.task && one.policy === match.policy && one.cache === cache),
    same = curve.find(({ budget }) => budget === row.budget),
    size = measureOf(row, match),
    height = interpolate(
      curve.map((one) => [measureOf(one, match), one.accuracy] as const),
      size,
    );
  return {
    ...row,
    ...(same && { matched: agree(size, measureOf(same, match), within) }),
    ...(height !== undefined && !row.perplexity && { shortfall: row.accuracy - height }),
  };
}
