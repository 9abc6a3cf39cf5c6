import { parentPort, workerData } from 'node:worker_threads';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { openEngine } from '../engine.ts';
import { runJob } from './experiment.ts';
import type { Bench } from './experiment.ts';
import type { FromWorker, WorkerData } from './pool.ts';
import type { Job } from './settings.ts';

const { settings, path, cwd, engine, threads } = workerData as WorkerData;
const port = parentPort!;
const send = (message: FromWorker): void => port.postMessage(message);
const bench: Promise<Bench> = (async () => ({ model: await loadModel(path, { engine: await openEngine(engine, cwd, threads) }), settings, cwd, sentences: sentencesOf(await heldOutBook()) }))();

port.on('message', (job: Job) => {
  bench.then((shared) => runJob(shared, job)).then(
    (result) => send({ result }),
    (error: Error) => send({ error: { name: error.name, message: error.message, stack: error.stack ?? '' } }),
  );
});
