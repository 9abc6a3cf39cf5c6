import { KvError } from '@kv/core';
import { UnrecoverableError, WaitingError, Worker } from 'bullmq';
import { PREFIX } from './ask.ts';
import { connect } from './redis.ts';
import type { QueueAddress } from './redis.ts';

/** So many workers may end in the midst of a job before it is taken for what ended them. */
const MOST_ENDED = 20;

export interface WorkOptions extends QueueAddress {
  /** Jobs at once. */
  readonly atOnce: number;
  /** Seconds after which the jobs of a worker that is gone are another's. */
  readonly lease: number;
  /**
   * Does a job, whose data may be anything. A KvError is told to who asked; anything else is tried again elsewhere.
   */
  readonly run: (data: unknown) => Promise<object>;
  /** Ends the work; jobs under way go back to the queue. */
  readonly signal: AbortSignal;
  /** Called when jobs can come. */
  readonly onReady?: () => void;
}

/** Does jobs until the signal. @throws KvError in one sentence where Redis does not answer, or goes and stays away */
export async function work({ atOnce, lease, run, signal, onReady, ...place }: WorkOptions): Promise<void> {
  const { client, lost, close } = await connect(place);
  const stopped = new Promise<'stopped'>((resolve) => {
    if (signal.aborted) resolve('stopped');
    else signal.addEventListener('abort', () => resolve('stopped'), { once: true });
  });
  const worker = new Worker(
    place.name,
    async (job, token) => {
      const running = run(job.data).catch((error: unknown) => {
        throw KvError.is(error) ? new UnrecoverableError(error.message) : error;
      });
      const result = await Promise.race([running, stopped]);
      if (result !== 'stopped') return result;
      running.catch(() => {}); // nobody waits for it
      await job.moveToWait(token);
      throw new WaitingError();
    },
    {
      connection: client,
      prefix: PREFIX,
      concurrency: atOnce,
      lockDuration: 1000 * lease,
      stalledInterval: 500 * lease,
      maxStalledCount: MOST_ENDED,
    },
  );
  worker.on('error', () => {}); // a connection that comes back is no trouble, and one that does not is `lost`
  try {
    await Promise.race([worker.waitUntilReady(), lost, stopped]);
    onReady?.();
    await Promise.race([stopped, lost]);
    await Promise.race([worker.close(), lost]);
  } finally {
    void worker.close(true).catch(() => {}); // where Redis is gone nothing can be waited for
    close();
  }
}
