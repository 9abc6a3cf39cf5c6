import { callback, count, KvError, object, required } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { UnrecoverableError, WaitingError, Worker } from 'bullmq';
import { PREFIX } from './job-queue.ts';
import { ADDRESS, connect } from './redis.ts';

/** Number of workers that may end during a job before the job is blamed and fails. */
const MOST_ENDED = 20;

const WORK = {
  ...ADDRESS,
  concurrency: required(count(1, 'jobs', 'Jobs run at once.')),
  lease: required(count(30, 'seconds', 'After how long the jobs of a worker that is gone go to another.')),
  run: required(
    callback<(data: unknown) => Promise<object>>(
      'Does a job, whose data may be anything. A KvError is reported to the caller; after any other error the job is tried again, by any worker.',
    ),
  ),
  signal: required(object<AbortSignal>('an AbortSignal', 'Ends the work; running jobs go back to the queue.')),
  onReady: callback<() => void>('Called when the worker is ready for jobs.'),
};
/** Options of `work`. */
export interface WorkOptions extends OptionValues<typeof WORK> {}

/** Runs jobs until the signal. @throws KvError in one sentence if Redis does not answer, or goes and stays away */
export async function work(options: WorkOptions): Promise<void> {
  const { concurrency, lease, run, signal, onReady, ...place } = settleOwn('work', WORK, options);
  const { client, lost, close } = await connect(place);
  const stopped = new Promise<'stopped'>((resolve) => {
    if (signal.aborted) resolve('stopped');
    else signal.addEventListener('abort', () => resolve('stopped'), { once: true });
  });
  const worker = new Worker(
    place.name,
    async (job, token) => {
      const result = await unlessAborted(async () => run(job.data), signal).catch((error: unknown) => {
        throw KvError.is(error) ? new UnrecoverableError(error.message) : error;
      });
      if (result !== 'stopped') return result;
      await job.moveToWait(token);
      throw new WaitingError();
    },
    {
      connection: client,
      prefix: PREFIX,
      concurrency,
      lockDuration: 1000 * lease,
      stalledInterval: 500 * lease,
      maxStalledCount: MOST_ENDED,
    },
  );
  worker.on('error', () => {}); // a reconnecting connection is no error; a lost one is reported by `lost`
  try {
    await Promise.race([worker.waitUntilReady(), lost, stopped]);
    onReady?.();
    await Promise.race([stopped, lost]);
    await Promise.race([worker.close(), lost]);
  } finally {
    void worker.close(true).catch(() => {}); // if Redis is gone, nothing can be awaited
    close();
  }
}

/**
 * Returns what `run` brings, or 'stopped' once the signal aborts. Its listener goes with it: to race one promise of the
 * signal for every job would hold their results as long as the signal lives.
 */
const unlessAborted = <R>(run: () => Promise<R>, signal: AbortSignal): Promise<R | 'stopped'> =>
  new Promise((resolve, reject) => {
    const stop = (): void => resolve('stopped');
    if (signal.aborted) return stop();
    signal.addEventListener('abort', stop, { once: true });
    const settle = (): void => signal.removeEventListener('abort', stop);
    run().finally(settle).then(resolve, reject);
  });
