import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { callback, KvError } from '@kv/core';
import type { OptionValues } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { Queue } from 'bullmq';
import { ADDRESS, connect } from './redis.ts';

/** Prefix of the keys in Redis. */
export const PREFIX = 'kv';
/** Results that no caller collects are removed after a week. */
const KEEP = { age: 7 * 24 * 3600 };
/** Milliseconds between checks for finished jobs. */
const LOOK_MS = 200;
/** Milliseconds between checks that Redis still has every job, and that a worker exists. */
const CHECK_MS = 5000;
/** Maximum starts of a job that throws an unexpected error. */
const ATTEMPTS = 3;

const QUEUE = { ...ADDRESS, onNoWorker: callback<() => void>('Called once if jobs wait and no worker is connected.') };
/** Options of `openQueue`. */
export interface QueueOptions extends OptionValues<typeof QUEUE> {}

/** A result, which stays in Redis until it is forgotten: a caller that stops before that gets it again. */
export interface QueuedResult {
  /** What the worker returned, as parsed JSON. */
  readonly result: unknown;
  /** Removes the result, once it is stored elsewhere. */
  forget(): Promise<void>;
}

/** A queue to which jobs are given. */
export interface JobQueue {
  /**
   * Has a worker do a job. Jobs are identified by their data: asking again, from any process, joins the running job or
   * returns the existing result. The result is another machine's word and must be checked.
   * @throws KvError with the worker's sentence, or if Redis is gone
   */
  ask(data: object): Promise<QueuedResult>;
  /** Disconnects. Unfinished jobs stay for workers, and their results for the next caller. */
  close(): Promise<void>;
}

interface PendingJob {
  readonly data: object;
  resolve(asked: QueuedResult): void;
  reject(error: unknown): void;
}

/** Opens a queue for asking. @throws KvError in one sentence if Redis does not answer */
export async function openQueue(options: QueueOptions): Promise<JobQueue> {
  const { onNoWorker, ...place } = settleOwn('openQueue', QUEUE, options),
    { client, lost, close } = await connect(place),
    queue = new Queue(place.name, { connection: client, prefix: PREFIX }),
    waiting = new Map<string, PendingJob>(),
    asked = new Map<string, Promise<QueuedResult>>(),
    stopped = new AbortController();
  queue.on('error', () => {}); // a reconnecting connection is no error; a lost one is reported by `lost`
  lost.catch(fail);

  /** Adds a job; adding one that exists changes nothing. */
  const add = async (id: string, data: object): Promise<void> => {
    const options = { jobId: id, attempts: ATTEMPTS, removeOnComplete: KEEP, removeOnFail: KEEP, stackTraceLimit: 0 };
    await queue.add('job', data, options);
  };
  function fail(error: unknown): void {
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  /**
   * Settles a job. A retried job keeps the reason of its earlier failure, so the set that holds it tells how it ended.
   */
  async function finish(id: string, { resolve, reject }: PendingJob, failed: boolean): Promise<void> {
    const job = await queue.getJob(id);
    if (!job) return;
    waiting.delete(id);
    if (!failed) return resolve({ result: job.returnvalue, forget: async () => void (await queue.remove(id)) });
    await queue.remove(id);
    reject(new KvError('worker', reasonOf(job.failedReason)));
  }

  /** Polls instead of listening, so that no event is missed while the connection is away. */
  async function look(): Promise<void> {
    for (let checked = Date.now(), told = false; !stopped.signal.aborted; ) {
      await sleep(LOOK_MS, undefined, { signal: stopped.signal });
      if (waiting.size === 0) continue;
      for (const state of ['completed', 'failed'] as const)
        for (const id of await queue.getRanges([state], 0, -1)) {
          const one = waiting.get(id);
          if (one) await finish(id, one, state === 'failed');
        }
      if (Date.now() - checked < CHECK_MS) continue;
      checked = Date.now();
      await addLost();
      if (told || waiting.size === 0 || (await queue.getWorkersCount()) > 0) continue;
      told = true;
      onNoWorker?.();
    }
  }
  /** Adds jobs again that a Redis restarted without its data has lost. */
  async function addLost(): Promise<void> {
    await Promise.all(
      [...waiting].map(async ([id, { data }]) => {
        if ((await queue.getJobState(id)) === 'unknown' && waiting.has(id)) await add(id, data);
      }),
    );
  }
  const looking = look().catch((error: unknown) => {
    if (!stopped.signal.aborted) fail(error);
  });

  return {
    ask(data) {
      const id = idOf(data),
        running = asked.get(id);
      if (running) return running;
      const result = new Promise<QueuedResult>((resolve, reject) => {
        const begin = async (): Promise<void> => {
          if ((await queue.getJobState(id)) === 'failed') await queue.remove(id); // so that it can be asked again
          waiting.set(id, { data, resolve, reject });
          await add(id, data);
        };
        Promise.race([begin(), lost]).catch(reject);
      });
      asked.set(id, result);
      const forget = (): void => {
        asked.delete(id);
      };
      result.then(forget, forget);
      return result;
    },
    async close() {
      stopped.abort();
      await Promise.race([looking, lost]).catch(() => {});
      await Promise.race([queue.close(), lost]).catch(() => {});
      close();
    },
  };
}

/** Returns a job's id. Redis' own ids are numbers, so a letter comes first. */
const idOf = (data: object): string => `j${createHash('sha256').update(JSON.stringify(data)).digest('hex')}`;

/** Rewords a worker's error message, which may be anything, or BullMQ's own. */
const reasonOf = (said = ''): string =>
  said.includes('stalled more than allowable limit')
    ? 'expected a worker that lives through this job, got several that ended in its midst'
    : said.slice(0, 1000);
