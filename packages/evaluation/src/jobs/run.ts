import { heldOutBook, sentencesOf } from '@kv/tasks';
import type { CellJob } from '../cells/job.ts';
import { cellRunner, runCell } from '../cells/run-cell.ts';
import type { Cell } from '../cells/types.ts';
import { runText } from '../choose/run-text.ts';
import type { ChoiceJob } from '../choose/run-text.ts';
import { runJob } from '../needle/run-job.ts';
import type { NeedleJob } from '../needle/settings.ts';
import { stopping } from '../stopping.ts';
import type { Bench } from '../subject.ts';
import type { OwnWork, ExperimentWork } from './experiment.ts';
import type { Runner } from './run-pool.ts';

/** Creates the function that runs one job of some work on a bench. */
export type JobsOf<W extends ExperimentWork> = (work: W, bench: Bench) => Promise<(job: unknown) => Promise<unknown>>;

/** Job functions of this package's own experiments. */
const ownJobs: JobsOf<OwnWork> = async (work, bench) => {
  if (work.kind === 'cells') {
    const run = cellRunner(bench, work);
    return (job) => run(job as Cell);
  }
  if (work.kind === 'cell jobs')
    return (job) => {
      const { problem, generation, cell } = job as CellJob;
      return runCell(bench, problem, generation, cell);
    };
  if (work.kind === 'choose') return (job) => runText(bench, work, job as ChoiceJob);
  const sentences = sentencesOf(await heldOutBook());
  return (job) => runJob({ ...bench, sentences, settings: work.settings }, job as NeedleJob);
};

/**
 * Runs jobs in this thread. @param jobsOf opens another kind of experiment. @defaultValue the experiments of this
 * package
 */
export const here =
  <W extends ExperimentWork = OwnWork>(bench: Bench, jobsOf = ownJobs as unknown as JobsOf<W>) =>
  <J, R>(work: W): Runner<J, R> => {
    const stop = new AbortController(),
      run = jobsOf(work, stopping(bench, stop.signal));
    run.catch(() => {}); // reported by the first job
    return {
      run: async (job) => (await run)(job) as Promise<R>,
      stop: async () => stop.abort(),
    };
  };
