import { KvError } from '@kv/core';
import { compile } from '@kv/core/engine';
import type { CacheForm } from '@kv/engine';
import type { Problem } from '@kv/tasks';
import type { Experiment } from '../jobs/experiment.ts';
import { digest } from '../jobs/store.ts';
import { policyOf } from '../policies.ts';
import type { PolicyNaming } from '../policies.ts';
import type { Subject } from '../subject.ts';
import { isRead, readIds } from './perplexity.ts';
import { cellId, cellResult, CELLS, EXACT } from './types.ts';
import type { Cell, CellResult, FileBudget, GenerationOptions } from './types.ts';
import type { CellWork } from './run-cell.ts';

/** Options of `cellExperiment`. */
export interface CellOptions extends CellWork {
  /** Prefix of the name of the results file. */
  readonly name: string;
  /** All policies that cells of this file may have, so that several runs share it. */
  readonly policies: readonly string[];
  /** The cells to run. */
  readonly cells: readonly Cell[];
}

/**
 * Builds an experiment of cells. Results of the same weights, problems and options share a file, whichever cells are
 * asked for. @throws KvError for a cell that does not fit the model's context
 */
export async function cellExperiment(
  subject: Subject,
  { name, tasks, generation, policies, cells }: CellOptions,
  { code }: Pick<PolicyNaming, 'code'> = {},
): Promise<Experiment<Cell, CellResult, readonly CellResult[]>> {
  const asked = new Set(cells.map(({ task, problem }) => JSON.stringify([task, problem])));
  for (const [task, problems] of Object.entries(tasks))
    for (const problem of problems)
      if (asked.has(JSON.stringify([task, problem.id]))) checkFits(subject, task, problem, generation);
  const byId = new Map(cells.map((cell) => [cellId(cell), cell]));
  return {
    name,
    settings: {
      cells: CELLS,
      weights: subject.fingerprint,
      engine: subject.engine,
      tasks: digest(tasks),
      generation,
      code: (await code?.(policies)) ?? [],
    },
    work: { kind: 'cells', tasks, generation },
    left: (results) => {
      const known = new Set(results.map(({ id }) => id));
      return [...byId].flatMap(([id, cell]) => (known.has(id) ? [] : [cell]));
    },
    conclude: (results) => {
      const known = new Map(results.map((result) => [result.id, result])),
        texts = new Map(Object.entries(tasks).map(([task, some]) => [task, new Map(some.map((one) => [one.id, one]))]));
      // graded again: another version of kv may have stored the answers
      return [...byId].map(([id, cell]) => cellResult(cell, texts.get(cell.task)!.get(cell.problem)!, known.get(id)!)); // it ends when none is left
    },
  };
}

/**
 * Checks that a problem fits the model. @throws KvError for a problem that cannot be asked this way, or exceeds the
 * model's context
 */
export function checkFits(
  { name: model, config: { maxPositions }, tokenizer }: Pick<Subject, 'name' | 'config' | 'tokenizer'>,
  task: string,
  problem: Problem,
  generation: GenerationOptions,
): void {
  const { id, context, question, maxNewTokens } = problem;
  if (isRead(problem)) {
    const { ids, from } = readIds(problem, tokenizer.encode),
      least = (what: string): KvError =>
        new KvError(task, `expected ${what} in problem ${JSON.stringify(id)}, whose perplexity is asked, got none`);
    if (from === 0) throw least('a text before the answer');
    if (from === ids.length) throw least('a text to read as its answer');
    if (ids.length > maxPositions)
      throw new KvError(
        task,
        `expected problems that fit the ${maxPositions} tokens of ${model}, got ${ids.length} in problem ${JSON.stringify(id)}`,
      );
    return;
  }
  if (generation.mode === 'agnostic' && (context === '' || question === ''))
    throw new KvError(
      task,
      `expected a context and a question in problem ${JSON.stringify(id)}, since the question comes after the eviction`,
    );
  const length = tokenizer.encode(context + question).ids.length,
    answer = generation.maxNewTokens ?? maxNewTokens;
  if (length + answer > maxPositions)
    throw new KvError(
      task,
      `expected problems that fit the ${maxPositions} tokens of ${model}, got ${length} and ${answer} for the answer in problem ${JSON.stringify(id)}`,
    );
}

/** Returns a cell for every policy, budget, problem and seed; policies that evict nothing get no budget. */
export async function cellsOf(
  arms: readonly {
    readonly policy: string;
    readonly budgets: readonly FileBudget[];
    readonly cache?: CacheForm | undefined;
  }[],
  problems: readonly { readonly task: string; readonly id: string }[],
  seeds: readonly number[],
  names: PolicyNaming['names'],
): Promise<readonly Cell[]> {
  const all = await Promise.all(
    arms.map(async ({ policy, budgets, cache }) => {
      const stored = cache === undefined || cache === EXACT ? {} : { cache };
      return compile(await policyOf(policy, names)).evicts
        ? budgets.map((budget) => ({ policy, budget, ...stored }))
        : [{ policy, ...stored }];
    }),
  );
  return problems.flatMap(({ task, id: problem }) =>
    seeds.flatMap((seed) => all.flat().map((arm): Cell => ({ task, problem, seed, ...arm }))),
  );
}
