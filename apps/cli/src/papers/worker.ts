import { parentPort, workerData } from 'node:worker_threads';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { openEngine } from '../engine.ts';
import type { FromWorker, WorkerModel } from '../needle/pool.ts';
import { specOf } from './jobs.ts';
import type { Job, Result } from './jobs.ts';
import { PLANS } from './plans.ts';
import type { PlanName } from './plans.ts';
import { runTrial } from './trial.ts';
import type { Bench } from './tried.ts';
import { proseOf } from './windows.ts';

export interface PapersData extends WorkerModel { readonly plan: PlanName; readonly seed: number; readonly embedded: boolean }

const { path, cwd, engine, threads, plan: name, seed, embedded } = workerData as PapersData, plan = PLANS[name];
const port = parentPort!;
const send = (message: FromWorker<Result>): void => port.postMessage(message);
const opened: Promise<Bench> = (async () => {
  const model = await loadModel(path, { engine: await openEngine(engine, cwd, threads) }), book = await heldOutBook();
  return { model, cwd, seed, embedded, sentences: sentencesOf(book), prose: proseOf(book, model.tokenizer, plan, seed) };
})();

port.on('message', ({ task, trial, arms }: Job) => {
  const started = performance.now();
  opened.then((bench) => runTrial(bench, task, plan.tasks[task]!, trial, arms)).then(
    (numbers) => send({ result: { task, spec: specOf(plan.tasks[task]!), trial, numbers, seconds: (performance.now() - started) / 1000 } }),
    (error: Error) => send({ error: { name: error.name, message: error.message, stack: error.stack ?? '' } }),
  );
});
