import { parentPort, Worker, workerData } from 'node:worker_threads';
import type { Bench } from '../subject.ts';
import type { OwnWork, ExperimentWork } from './experiment.ts';
import type { Runner } from './run-pool.ts';
import { here } from './run.ts';
import type { JobsOf } from './run.ts';

type ToThread = { readonly job: unknown } | 'stop';
type FromThread =
  | 'stopped'
  | { readonly result: unknown }
  | { readonly error: Pick<Error, 'name' | 'message' | 'stack'> };
interface PendingJob<R> {
  resolve(result: R): void;
  reject(error: Error): void;
}
interface Started<D, W> {
  readonly work: W;
  readonly data: D;
}

/** Runs jobs in threads. `program` is a module that calls `serve`; its `open` gets a copy of `data`. */
export const threads =
  (program: URL, data: unknown) =>
  <J, R>(work: ExperimentWork): Runner<J, R> => {
    const worker = new Worker(program, { workerData: { work, data } satisfies Started<unknown, ExperimentWork> });
    const send = (message: ToThread): void => worker.postMessage(message);
    let waiting: PendingJob<R> | undefined;
    worker.on('message', (message: FromThread) => {
      if (message === 'stopped')
        void worker.terminate(); // not earlier: ONNX Runtime ends the process if a thread ends during a product
      else if ('result' in message) waiting?.resolve(message.result as R);
      else waiting?.reject(Object.assign(new Error(), message.error));
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
  };

/**
 * The worker side of `threads`: opens a bench and runs the jobs that arrive until it is stopped. @param jobsOf as in
 * `here`
 */
export function serve<D, W extends ExperimentWork = OwnWork>(
  open: (data: D) => Promise<Bench>,
  jobsOf?: JobsOf<W>,
): void {
  const port = parentPort;
  if (!port) throw new Error('serve: expected to be called in a thread, got the main one');
  const { work, data } = workerData as Started<D, W>,
    send = (message: FromThread): void => port.postMessage(message);
  const opened = open(data).then((bench) => here(bench, jobsOf)<unknown, unknown>(work));
  opened.catch(() => {}); // reported by the first job
  let running: Promise<void> = Promise.resolve();
  port.on('message', (message: ToThread) => {
    if (message !== 'stop')
      running = opened
        .then((runner) => runner.run(message.job))
        .then(
          (result) => send({ result }),
          ({ name, message: said, stack = '' }: Error) => send({ error: { name, message: said, stack } }),
        );
    else
      void opened
        .then((runner) => runner.stop())
        .catch(() => {})
        .then(() => running)
        .then(() => send('stopped'));
  });
}
