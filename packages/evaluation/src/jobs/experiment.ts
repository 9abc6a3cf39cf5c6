import { KvError } from '@kv/core';
import type { CellWork } from '../cells/run-cell.ts';
import type { NeedleSettings } from '../needle/settings.ts';
import { runPool } from './pool.ts';
import type { Runner } from './pool.ts';
import { lockStore, openStore, storePath } from './store.ts';

/** What jobs are about, as plain data that a thread can be handed. */
export interface ExperimentWork {
  /** Names the experiment in what a command tells of it. */
  readonly kind: string;
}

/** The work of this package's own experiments. */
export type OwnWork =
  | { readonly kind: 'needle'; readonly settings: NeedleSettings }
  | ({ readonly kind: 'cells' } & CellWork)
  /** Cells that each bring their problem, from a queue. */
  | { readonly kind: 'cell jobs' };

/**
 * An experiment as jobs, each with a result that JSON can hold.
 * @typeParam J a job
 * @typeParam R the result of a job
 * @typeParam T what all results come to
 * @typeParam W what the jobs are about
 */
export interface Experiment<J, R, T, W extends ExperimentWork = OwnWork> {
  /** Begins the name of the file of its results. */
  readonly name: string;
  /** What results depend on: the same settings, the same file. */
  readonly settings: object;
  readonly work: W;
  /** The jobs that these results leave to run. */
  left(results: readonly R[]): readonly J[];
  conclude(results: readonly R[]): T;
}

export interface RunOptions<J, R, W extends ExperimentWork = OwnWork> {
  /** What runs jobs: `here(bench)` or `threads(program, data)`. */
  readonly start: (work: W) => Runner<J, R>;
  /** How many of them at once. @defaultValue 1 */
  readonly size?: number;
  /** Where results are kept, a JSON object a line; the same settings go on with them. @defaultValue nowhere */
  readonly folder?: string;
  /** Forget the results that are there. */
  readonly fresh?: boolean | undefined;
  /** Ends the run; what is done stays in the folder. */
  readonly signal?: AbortSignal;
  /** `done` of `total` jobs were there before, in the file `path`, `damaged` lines of which could not be read. */
  readonly onStart?: (jobs: {
    readonly total: number;
    readonly done: number;
    readonly path: string;
    readonly damaged: number;
  }) => void;
  readonly onResult?: (result: R) => void;
  /** Another run holds the file at this path: this one waits until it is done, and goes on with what it left. */
  readonly onWait?: (path: string) => void;
}

/**
 * Runs what is left of an experiment. @returns nothing where the signal was aborted
 * @throws what the first failing job throws, and before any job KvError where results could not be kept
 */
export async function runExperiment<J, R, T, W extends ExperimentWork = OwnWork>(
  experiment: Experiment<J, R, T, W>,
  options: RunOptions<J, R, W>,
): Promise<T | undefined> {
  const { folder, fresh, signal = new AbortController().signal, onStart, onWait } = options,
    { name, settings, left, conclude } = experiment;
  if (folder === undefined) return runLeft(experiment, options, signal);
  const there = fresh ? undefined : openStore<R>({ folder, name, settings });
  // what is only read needs no lock
  if (there && left(there.found).length === 0) {
    const total = left([]).length;
    onStart?.({ total, done: total, path: there.path, damaged: there.damaged });
    return signal.aborted ? undefined : conclude(there.found);
  }
  let release: () => Promise<void>;
  try {
    release = await lockStore(storePath(folder, name, settings), { signal, onWait });
  } catch (error) {
    if (signal.aborted && !KvError.is(error)) return undefined;
    throw error;
  }
  try {
    return await runLeft(experiment, options, signal);
  } finally {
    await release();
  }
}

/** Runs what the store does not have yet. */
async function runLeft<J, R, T, W extends ExperimentWork>(
  { name, settings, work, left, conclude }: Experiment<J, R, T, W>,
  { start, size = 1, folder, fresh, onStart, onResult }: RunOptions<J, R, W>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const store = openStore<R>({ folder, name, settings, fresh }),
    results = [...store.found],
    jobs = left(results),
    total = left([]).length;
  if (jobs.length > 0) store.ready();
  onStart?.({ total, done: total - jobs.length, path: store.path, damaged: store.damaged });
  await runPool<J, R>({
    jobs,
    size,
    start: () => start(work),
    signal,
    onResult: (result) => {
      store.add(result);
      results.push(result);
      onResult?.(result);
    },
  });
  return signal.aborted ? undefined : conclude(results);
}
