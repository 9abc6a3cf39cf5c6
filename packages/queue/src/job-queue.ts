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
/** Seconds for which others who wait for a result get it, once one of them has had it removed. */
const SHARED = 120;

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
  /** Disconnects; what is asked and not answered is refused. Jobs stay for workers, and results for the next caller. */
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
    asked = new Map<string, { readonly result: Promise<QueuedResult>; reject(error: unknown): void }>(),
    stopped = new AbortController(),
    /** Key of the result of a job that is removed. */
    shared = (id: string): string => queue.toKey(`shared:${id}`);
  queue.on('error', () => {}); // a reconnecting connection is no error; a lost one is reported by `lost`
  stopped.signal.addEventListener('abort', () => {
    for (const { reject } of asked.values()) reject(stopped.signal.reason);
    waiting.clear();
  });
  lost.catch((error: unknown) => stopped.abort(error));

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
    if (!job) return; // another caller has had it removed
    waiting.delete(id);
    // a failed one stays for others who wait for it, until it is asked again
    if (failed) return reject(new KvError('worker', reasonOf(job.failedReason)));
    const result: unknown = job.returnvalue;
    resolve({
      result,
      async forget() {
        await client.set(shared(id), JSON.stringify(result ?? null), 'EX', SHARED);
        await queue.remove(id);
      },
    });
  }

  /** Polls instead of listening, so that no event is missed while the connection is away. */
  async function look(): Promise<void> {
    for (let checked = Date.now(), told = false; !stopped.signal.aborted; ) {
      await sleep(LOOK_MS, undefined, { signal: stopped.signal });
      if (waiting.size === 0) continue;
      try {
        await finishEnded();
        if (Date.now() - checked < CHECK_MS) continue;
        checked = Date.now();
        await addLost();
        if (told || waiting.size === 0 || (await queue.getWorkersCount()) > 0) continue;
        told = true;
        onNoWorker?.();
      } catch (error) {
        fail(troubleOf(error)); // and goes on: what is asked later may be answered
      }
    }
  }
  async function finishEnded(): Promise<void> {
    const ids = [...waiting.keys()],
      [completed, failed] = await Promise.all(
        (['completed', 'failed'] as const).map((state) => client.zmscore(queue.toKey(state), ...ids)),
      );
    for (const [i, id] of ids.entries()) {
      const one = waiting.get(id),
        done = completed?.[i] != null;
      if (!one || (!done && failed?.[i] == null)) continue;
      await finish(id, one, !done).catch((error: unknown) => {
        waiting.delete(id);
        one.reject(troubleOf(error));
      });
    }
  }
  /** Adds jobs again that a Redis restarted without its data has lost; not those whose results another caller collected. */
  async function addLost(): Promise<void> {
    await Promise.all(
      [...waiting].map(async ([id, { data, resolve }]) => {
        if ((await queue.getJobState(id)) !== 'unknown') return;
        const result = await client.get(shared(id));
        if (!waiting.has(id)) return;
        if (result === null) return add(id, data);
        waiting.delete(id);
        resolve({ result: JSON.parse(result), forget: async () => {} });
      }),
    );
  }
  const looking = look().catch(() => {}); // it ends with the queue

  return {
    async ask(data) {
      const id = idOf(data),
        running = asked.get(id);
      if (running) return running.result;
      const begin = async (job: PendingJob): Promise<void> => {
        stopped.signal.throwIfAborted();
        if ((await queue.getJobState(id)) === 'failed') await queue.remove(id); // so that it can be asked again
        stopped.signal.throwIfAborted();
        waiting.set(id, job);
        await add(id, data);
      };
      let reject = (_: unknown): void => {};
      const result = new Promise<QueuedResult>((resolve, refuse) => {
        reject = refuse;
        begin({ data, resolve, reject }).catch((error: unknown) => {
          waiting.delete(id);
          reject(troubleOf(error));
        });
      });
      asked.set(id, { result, reject });
      try {
        return await result;
      } finally {
        asked.delete(id);
      }
    },
    async close() {
      stopped.abort(new KvError('queue', 'was closed before the answer; the job stays for workers'));
      await Promise.race([looking, lost]).catch(() => {});
      await Promise.race([queue.close(), lost]).catch(() => {});
      close();
    },
  };
}

/** Returns an error of Redis, or of a callback, as one of this package. */
const troubleOf = (error: unknown): KvError =>
  KvError.is(error)
    ? error
    : new KvError(
        'queue',
        `expected to wait for the job, got ${error instanceof Error ? error.message : error}; ask again`,
      );

/**
 * Returns a job's id. Redis' own ids are numbers, so a letter comes first.
 * @throws KvError for data that JSON cannot write
 */
function idOf(data: object): string {
  let written: string | undefined,
    why = 'nothing to write';
  try {
    written = JSON.stringify(data, sorted);
  } catch (error) {
    why = (error as Error).message;
  }
  if (written === undefined)
    throw new KvError('queue', `expected a job whose data JSON can write, got ${why}: give texts, numbers and lists`);
  return `j${createHash('sha256').update(written).digest('hex')}`;
}

/** Sorts an object's keys for JSON, since the same data may list them in another order. */
const sorted = (_: string, value: unknown): unknown =>
  value === null || typeof value !== 'object' || Array.isArray(value)
    ? value
    : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Rewords a worker's error message, which may be anything, or BullMQ's own. */
const reasonOf = (said = ''): string =>
  said.includes('stalled more than allowable limit')
    ? 'expected a worker that lives through this job, got several that ended in its midst'
    : said.slice(0, 1000);
