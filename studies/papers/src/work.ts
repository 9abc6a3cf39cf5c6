import type { JobsOf } from '@kv/evaluation';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import type { PaperJob } from './jobs.ts';
import { runPaperJob } from './trial.ts';
import type { Plan } from './types.ts';
import { proseOf } from './windows.ts';

/** The data that defines the jobs of a plan. */
export interface PaperWork {
  readonly kind: 'papers';
  readonly plan: Plan;
  readonly seed: number;
  readonly embedded: boolean;
  /** Text that prose is taken from. @defaultValue the bundled book */
  readonly text?: string;
}

/** Runs the jobs of a plan. */
export const paperJobs: JobsOf<PaperWork> = async ({ plan, seed, embedded, text }, bench) => {
  const book = await heldOutBook(),
    sentences = sentencesOf(book),
    prose = proseOf(text ?? book, bench.model.tokenizer, plan, seed);
  return (job) => runPaperJob({ ...bench, sentences, seed, embedded, prose }, plan, job as PaperJob);
};
