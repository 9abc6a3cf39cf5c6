import { parentPort, workerData } from 'node:worker_threads';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { openEngine } from '../engine.ts';
import type { FromWorker, WorkerModel } from '../needle/pool.ts';
import { specOf } from './jobs.ts';
import type { Job, Result } from './jobs.ts';
import { SEED, TASKS } from './plan.ts';
import { runTrial } from './trial.ts';
import type { Bench } from './trial.ts';
import { proseOf } from './windows.ts';

export interface PapersData extends WorkerModel { readonly seed: number; readonly embedded: boolean }

const { path, cwd, engine, threads, seed, embedded } = workerData as PapersData;
const port = parentPort!;
const send = (message: FromWorker<Result>): void => port.postMessage(message);
const opened: Promise<Bench> = (async () => {
  const model = await loadModel(path, { engine: await openEngine(engine, cwd, threads) }), book = await heldOutBook();
  return { model, cwd, seed, embedded, sentences: sentencesOf(book), prose: proseOf(book, model.tokenizer, seed === SEED) };
})();

port.on('message', ({ task, trial, arms }: Job) => {
  const started = performance.now();
  opened.then((bench) => runTrial(bench, task, TASKS[task]!, trial, arms)).then(
    (numbers) => send({ result: { task, spec: specOf(task), trial, numbers, seconds: (performance.now() - started) / 1000 } }),
    (error: Error) => send({ error: { name: error.name, message: error.message, stack: error.stack ?? '' } }),
  );
});
