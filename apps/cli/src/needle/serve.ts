import { parentPort } from 'node:worker_threads';
import type { Model } from '@kv/models';
import type { FromWorker, ToWorker } from './pool.ts';

/**
 * The worker's side of `threadRunner`: runs the jobs that it is given. `run` passes the models that it computes with
 * through `stops`: told to stop, they refuse the next layer, and nothing is left in native code.
 */
export function serve<J, R>(run: (job: J, stops: (model: Model) => Model) => Promise<R>): void {
  const port = parentPort!,
    stop = new AbortController(),
    send = (message: FromWorker<R>): void => port.postMessage(message);
  const stops = (model: Model): Model => ({
    ...model,
    memory: (options) => model.memory({ ...options, signal: stop.signal }),
  });
  let running: Promise<void> = Promise.resolve();
  port.on('message', (message: ToWorker<J>) => {
    if (message === 'stop') {
      stop.abort();
      void running.then(() => send('stopped'));
      return;
    }
    running = run(message.job, stops).then(
      (result) => send({ result }),
      ({ name, message, stack = '' }: Error) => send({ error: { name, message, stack } }),
    );
  });
}
