import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { KvError } from '@kv/core';
import { Queue } from 'bullmq';
import { connect } from './redis.ts';
import type { QueueAddress } from './redis.ts';

/** Of the keys in Redis. */
export const PREFIX = 'kv';
/** What nobody came for is forgotten after a week. */
const KEEP = { age: 7 * 24 * 3600 };
/** Milliseconds between two looks at what is finished. */
const LOOK_MS = 200;
/** Milliseconds between two looks at whether Redis still has every job, and at whether anybody works. */
const CHECK_MS = 5000;
/** Starts of a job that throws what another start may not. */
const ATTEMPTS = 3;

export interface QueueOptions extends QueueAddress {
  /** Called once where jobs wait and nobody works. */
  readonly onNobody?: () => void;
}

/** A result, which stays in Redis until it is forgotten: whoever is stopped before that gets it again. */
export interface QueuedResult {
  readonly result: unknown;
  /** For when it is kept elsewhere. */
  forget(): Promise<void>;
}

export interface JobQueue {
  /**
   * Has a job done by some worker. The same data is the same job, whoever asks and however often; a result that is
   * there already is taken. What comes is another machine's word.
   * @throws KvError with the worker's sentence, or where Redis is gone
   */
  ask(data: object): Promise<QueuedResult>;
  /** Jobs that are not done stay for workers, and their results for who asks again. */
  close(): Promise<void>;
}

interface Waiting {
  readonly data: object;
  resolve(asked: QueuedResult): void;
  reject(error: unknown): void;
}

/** Opens a queue to ask. @throws KvError in one sentence where Redis does not answer */
export async function openQueue({ onNobody, ...place }: QueueOptions): Promise<JobQueue> {
  const { client, lost, close } = await connect(place),
    queue = new Queue(place.name, { connection: client, prefix: PREFIX }),
    waiting = new Map<string, Waiting>(),
    stopped = new AbortController();
  queue.on('error', () => {}); // a connection that comes back is no trouble, and one that does not is `lost`
  lost.catch(fail);

  /** Adding a job that is there changes nothing. */
  const add = async (id: string, data: object): Promise<void> => {
    const options = { jobId: id, attempts: ATTEMPTS, removeOnComplete: KEEP, removeOnFail: KEEP, stackTraceLimit: 0 };
    await queue.add('job', data, options);
  };
  function fail(error: unknown): void {
    for (const { reject } of waiting.values()) reject(error);
    waiting.clear();
  }

  /** One that was retried keeps the reason of what failed before: the set in which it is says how it ended. */
  async function finish(id: string, { resolve, reject }: Waiting, failed: boolean): Promise<void> {
    const job = await queue.getJob(id);
    if (!job) return;
    waiting.delete(id);
    if (!failed) return resolve({ result: job.returnvalue, forget: async () => void (await queue.remove(id)) });
    await queue.remove(id);
    reject(new KvError('worker', reasonOf(job.failedReason)));
  }

  /** Looks rather than listens: no event is missed where the connection was away. */
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
      onNobody?.();
    }
  }
  /** A Redis that was started again without its data has no jobs. */
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
      const id = idOf(data);
      return new Promise<QueuedResult>((resolve, reject) => {
        const begin = async (): Promise<void> => {
          if ((await queue.getJobState(id)) === 'failed') await queue.remove(id); // it is asked again
          waiting.set(id, { data, resolve, reject });
          await add(id, data);
        };
        Promise.race([begin(), lost]).catch(reject);
      });
    },
    async close() {
      stopped.abort();
      await Promise.race([looking, lost]).catch(() => {});
      await Promise.race([queue.close(), lost]).catch(() => {});
      close();
    },
  };
}

/** Redis' own ids are numbers, so a letter comes first. */
const idOf = (data: object): string => `j${createHash('sha256').update(JSON.stringify(data)).digest('hex')}`;

/** What a worker said, which may be anything; BullMQ's own words in plain ones. */
const reasonOf = (said = ''): string =>
  said.includes('stalled more than allowable limit')
    ? 'expected a worker that lives through this job, got several that ended in its midst'
    : said.slice(0, 1000);
