import { Worker } from 'node:worker_threads';
import type { EngineChoice } from '../engine.ts';
import type { Result } from './results.ts';
import type { Job, Settings } from './settings.ts';

/** `path` is what `loadModel` takes for the model of the settings; `threads` are one worker's share. */
export interface WorkerData { readonly settings: Settings; readonly path: string; readonly cwd: string; readonly engine: EngineChoice; readonly threads: number }
export type FromWorker = { readonly result: Result } | { readonly error: { readonly name: string; readonly message: string; readonly stack: string } };

/** Something that runs jobs one after another. */
export interface Runner {
  run(job: Job): Promise<Result>;
  stop(): Promise<unknown>;
}

/** A runner in a thread of its own, with its own copy of the model. */
export function threadRunner(data: WorkerData): Runner {
  // From the bundle this module is dist/bin.js, from source it stands beside the worker.
  const worker = new Worker(new URL(import.meta.url.endsWith('.ts') ? './worker.ts' : './needle/worker.js', import.meta.url), { workerData: data });
  let waiting: { readonly resolve: (result: Result) => void; readonly reject: (error: Error) => void } | undefined;
  worker.on('message', (message: FromWorker) => ('result' in message ? waiting?.resolve(message.result) : waiting?.reject(revive(message.error))));
  worker.on('error', (error: Error) => waiting?.reject(error));
  worker.on('exit', (code) => waiting?.reject(new Error(`a worker ended with code ${code} before its job was done`)));
  return {
    run: (job) => new Promise((resolve, reject) => {
      waiting = { resolve, reject };
      worker.postMessage(job);
    }),
    stop: () => worker.terminate(),
  };
}

/** An error of another thread: its name says what sort it is. */
const revive = ({ name, message, stack }: { readonly name: string; readonly message: string; readonly stack: string }): Error => Object.assign(new Error(message), { name, stack });

/**
 * Hands jobs to `size` runners until none is left or the signal aborts; every result goes to `onResult` as it comes.
 * @throws what the first failing job throws, after all runners have stopped
 */
export async function runPool({ jobs, size, start, signal, onResult }: {
  readonly jobs: readonly Job[]; readonly size: number; readonly start: () => Runner; readonly signal: AbortSignal; readonly onResult: (result: Result) => void;
}): Promise<void> {
  const queue = [...jobs];
  const runners = Array.from({ length: Math.min(size, jobs.length) }, start);
  const aborted = new Promise<'aborted'>((resolve) => (signal.aborted ? resolve('aborted') : signal.addEventListener('abort', () => resolve('aborted'), { once: true })));
  let failed = false;
  try {
    await Promise.all(runners.map(async (runner) => {
      for (let job = queue.shift(); job && !failed && !signal.aborted; job = queue.shift()) {
        const running = runner.run(job);
        running.catch(() => { failed = true; });
        const result = await Promise.race([running, aborted]);
        if (result === 'aborted') return;
        onResult(result);
      }
    }));
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}
