import { workerData } from 'node:worker_threads';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { openRuntime } from '../engine.ts';
import type { WorkerModel } from '../needle/pool.ts';
import { serve } from '../needle/serve.ts';
import { specOf } from './jobs.ts';
import type { Job, Result } from './jobs.ts';
import { PLANS } from './plans.ts';
import type { PlanName } from './plans.ts';
import { runTrial } from './trial.ts';
import type { Bench } from './tried.ts';
import { proseOf } from './windows.ts';

export interface PapersData extends WorkerModel {
  readonly plan: PlanName;
  readonly seed: number;
  readonly embedded: boolean;
}

const { path, cwd, engine, threads, plan: name, seed, embedded } = workerData as PapersData,
  plan = PLANS[name];
const opened: Promise<Bench> = (async () => {
  const model = await loadModel(path, { runtime: await openRuntime(engine, cwd, threads) }),
    book = await heldOutBook();
  return {
    model,
    cwd,
    seed,
    embedded,
    sentences: sentencesOf(book),
    prose: proseOf(book, model.tokenizer, plan, seed),
  };
})();
opened.catch(() => {}); // its first job says it

serve<Job, Result>(async ({ task, trial, arms }, stops) => {
  const started = performance.now(),
    { model, ...shared } = await opened,
    numbers = await runTrial({ ...shared, model: stops(model) }, task, plan.tasks[task], trial, arms);
  return { task, spec: specOf(plan.tasks[task]), trial, numbers, seconds: (performance.now() - started) / 1000 };
});
