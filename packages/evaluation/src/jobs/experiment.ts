import { KvError } from '@kv/core';
import type { CellWork } from '../cells/run-cell.ts';
import type { ChoiceWork } from '../choose/run-text.ts';
import type { NeedleSettings } from '../needle/settings.ts';
import { runPool } from './run-pool.ts';
import type { Runner } from './run-pool.ts';
import { lockStore, openStore, storePath } from './store.ts';

/** Plain data that defines an experiment's jobs and can be passed to a thread. */
export interface ExperimentWork {
  /** Name of the experiment in messages. */
  readonly kind: string;
}

/** The work of this package's own experiments. */
export type OwnWork =
  | { readonly kind: 'needle'; readonly settings: NeedleSettings }
  | ({ readonly kind: 'cells' } & CellWork)
  | ChoiceWork
  /** Cells from a queue, each with its problem. */
  | { readonly kind: 'cell jobs' };

/**
 * An experiment of jobs with JSON results.
 * @typeParam J a job
 * @typeParam R the result of a job
 * @typeParam T the result of the experiment
 * @typeParam W the data that defines the jobs
 */
export interface Experiment<J, R, T, W extends ExperimentWork = OwnWork> {
  /** Prefix of the name of the results file. */
  readonly name: string;
  /** Everything that results depend on: the same settings use the same file. */
  readonly settings: object;
  /** What a runner needs to run the jobs. */
  readonly work: W;
  /** Returns the jobs still to run, given these results. */
  left(results: readonly R[]): readonly J[];
  /** Returns the experiment's result from those of all jobs. */
  conclude(results: readonly R[]): T;
}

/** Options of `runExperiment`. */
export interface RunOptions<J, R, W extends ExperimentWork = OwnWork> {
  /** Starts a runner: `here(bench)` or `threads(program, data)`. */
  readonly start: (work: W) => Runner<J, R>;
  /** Number of runners. @defaultValue 1 */
  readonly size?: number;
  /**
   * Folder of the results, stored as JSON lines; a run with the same settings continues from them. @defaultValue
   * nothing is stored
   */
  readonly folder?: string;
  /** Drop existing results. @defaultValue false */
  readonly fresh?: boolean | undefined;
  /** Aborts the run; finished results stay in the folder. */
  readonly signal?: AbortSignal;
  /**
   * Called first: `done` of `total` jobs had results in the file `path`, `damaged` lines of which could not be read.
   */
  readonly onStart?: (jobs: {
    readonly total: number;
    readonly done: number;
    readonly path: string;
    readonly damaged: number;
  }) => void;
  /** Called with each result as it comes. */
  readonly onResult?: (result: R) => void;
  /** Called if another run has locked the file: this run waits for it and continues with what it left. */
  readonly onWait?: (path: string) => void;
}

/**
 * Runs the remaining jobs of an experiment.
 * @returns its result, or nothing if the signal was aborted
 * @throws what the first failing job throws; KvError, before any job, if results could not be stored
 */
export async function runExperiment<J, R, T, W extends ExperimentWork = OwnWork>(
  experiment: Experiment<J, R, T, W>,
  options: RunOptions<J, R, W>,
): Promise<T | undefined> {
  const { folder, fresh, signal = new AbortController().signal, onStart, onWait } = options,
    { name, settings, left, conclude } = experiment;
  if (folder === undefined) return runLeft(experiment, options, signal);
  const there = fresh ? undefined : openStore<R>({ folder, name, settings });
  // reading alone needs no lock
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

/** Runs the jobs whose results are not stored yet. */
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
