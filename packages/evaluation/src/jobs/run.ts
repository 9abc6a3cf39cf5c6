import { heldOutBook, sentencesOf } from '@kv/tasks';
import type { CellJob } from '../cells/job.ts';
import { cellRunner, runCell } from '../cells/run-cell.ts';
import type { Cell } from '../cells/types.ts';
import { runJob } from '../needle/run-job.ts';
import type { NeedleJob } from '../needle/settings.ts';
import type { PaperJob } from '../papers/jobs.ts';
import { runPaperJob } from '../papers/trial.ts';
import { proseOf } from '../papers/windows.ts';
import type { Bench } from '../subject.ts';
import type { Work } from './experiment.ts';
import type { Runner } from './pool.ts';

/** Runs the jobs of some work. */
export async function runOf(work: Work, bench: Bench): Promise<(job: unknown) => Promise<unknown>> {
  if (work.kind === 'cells') {
    const run = cellRunner(bench, work);
    return (job) => run(job as Cell);
  }
  if (work.kind === 'cell jobs')
    return (job) => {
      const { problem, generating, cell } = job as CellJob;
      return runCell(bench, problem, generating, cell);
    };
  const book = await heldOutBook(),
    sentences = sentencesOf(book);
  if (work.kind === 'needle')
    return (job) => runJob({ ...bench, sentences, settings: work.settings }, job as NeedleJob);
  const { plan, seed, embedded, text = book } = work,
    prose = proseOf(text, bench.model.tokenizer, plan, seed);
  return (job) => runPaperJob({ ...bench, sentences, seed, embedded, prose }, plan, job as PaperJob);
}

/** A bench whose sequences refuse the next layer once the signal is aborted: nothing is left in native code. */
export const stopping = ({ model, names }: Bench, signal: AbortSignal): Bench => ({
  model: { ...model, memory: (options) => model.memory({ ...options, signal }) },
  names,
});

/** Runs jobs in this thread. */
export const here =
  (bench: Bench) =>
  <J, R>(work: Work): Runner<J, R> => {
    const stop = new AbortController(),
      run = runOf(work, stopping(bench, stop.signal));
    run.catch(() => {}); // its first job says it
    return {
      run: async (job) => (await run)(job) as Promise<R>,
      stop: async () => stop.abort(),
    };
  };
