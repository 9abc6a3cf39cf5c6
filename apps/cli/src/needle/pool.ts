import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { EngineChoice } from '../engine.ts';
import type { Result } from './results.ts';
import type { Job, Settings } from './settings.ts';

/** What every worker is given: `path` is what `loadModel` takes; `threads` are one worker's share. */
export interface WorkerModel {
  readonly path: string;
  readonly cwd: string;
  readonly engine: EngineChoice;
  readonly threads: number;
}
export interface WorkerData extends WorkerModel {
  readonly settings: Settings;
}
export type ToWorker<J> = { readonly job: J } | 'stop';
export type FromWorker<R> =
  | 'stopped'
  | { readonly result: R }
  | { readonly error: { readonly name: string; readonly message: string; readonly stack: string } };

/** Something that runs jobs one after another. */
export interface Runner<J = Job, R = Result> {
  run(job: J): Promise<R>;
  stop(): Promise<unknown>;
}

/** A runner in a thread of its own, with its own copy of the model; `program` is the folder of its worker. */
export function threadRunner<J = Job, R = Result>(program: 'needle' | 'papers', data: WorkerModel): Runner<J, R> {
  // From the bundle this module is dist/bin.js, from source it stands in one of the folders.
  const worker = new Worker(
    new URL(import.meta.url.endsWith('.ts') ? `../${program}/worker.ts` : `./${program}/worker.js`, import.meta.url),
    { workerData: data },
  );
  const send = (message: ToWorker<J>): void => worker.postMessage(message);
  let waiting: { readonly resolve: (result: R) => void; readonly reject: (error: Error) => void } | undefined;
  worker.on('message', (message: FromWorker<R>) => {
    if (message === 'stopped')
      void worker.terminate(); // not before: ONNX Runtime ends the process where a thread ends with a product under way
    else if ('result' in message) waiting?.resolve(message.result);
    else waiting?.reject(revive(message.error));
  });
  const ended = new Promise<void>((resolve) => worker.once('exit', () => resolve()));
  worker.on('error', (error: Error) => waiting?.reject(error));
  worker.on('exit', (code) => waiting?.reject(new Error(`a worker ended with code ${code} before its job was done`)));
  return {
    run: (job) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        send({ job });
      }),
    stop: () => {
      send('stop');
      return ended;
    },
  };
}

/** Threads of each of several workers. */
export const threadsOf = (workers: number): number => Math.max(1, Math.floor(availableParallelism() / workers));

/** An error of another thread: its name says what sort it is. */
const revive = ({
  name,
  message,
  stack,
}: {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
}): Error => Object.assign(new Error(message), { name, stack });

/**
 * Hands jobs to `size` runners until none is left or the signal aborts; every result goes to `onResult` as it comes.
 * @throws what the first failing job throws, after all runners have stopped
 */
export async function runPool<J = Job, R = Result>({
  jobs,
  size,
  start,
  signal,
  onResult,
}: {
  readonly jobs: readonly J[];
  readonly size: number;
  readonly start: () => Runner<J, R>;
  readonly signal: AbortSignal;
  readonly onResult: (result: R) => void;
}): Promise<void> {
  const queue = [...jobs];
  const runners = Array.from({ length: Math.min(size, jobs.length) }, start);
  const aborted = new Promise<'aborted'>((resolve) =>
    signal.aborted ? resolve('aborted') : signal.addEventListener('abort', () => resolve('aborted'), { once: true }),
  );
  let failed = false;
  try {
    await Promise.all(
      runners.map(async (runner) => {
        for (let job = queue.shift(); job && !failed && !signal.aborted; job = queue.shift()) {
          const running = runner.run(job);
          running.catch(() => {
            failed = true;
          });
          const result = await Promise.race([running, aborted]);
          if (result === 'aborted') return;
          onResult(result);
        }
      }),
    );
  } finally {
    await Promise.all(runners.map((runner) => runner.stop()));
  }
}
