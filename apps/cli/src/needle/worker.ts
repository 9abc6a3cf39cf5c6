import { workerData } from 'node:worker_threads';
import { loadModel } from '@kv/models';
import { heldOutBook, sentencesOf } from '@kv/tasks';
import { openRuntime } from '../engine.ts';
import { runJob } from './experiment.ts';
import type { WorkerData } from './pool.ts';
import type { Result } from './results.ts';
import { serve } from './serve.ts';
import type { Job } from './settings.ts';

const { settings, path, cwd, engine, threads } = workerData as WorkerData;
const opened = (async () => ({
  model: await loadModel(path, { runtime: await openRuntime(engine, cwd, threads) }),
  settings,
  cwd,
  sentences: sentencesOf(await heldOutBook()),
}))();
opened.catch(() => {}); // its first job says it

serve<Job, Result>(async (job, stops) => {
  const { model, ...shared } = await opened;
  return runJob({ ...shared, model: stops(model) }, job);
});
