import { KvError } from '@kv/core';
import { freePort, hasRedis, startRedis } from '@kv/model-testing/redis';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openQueue, work } from '../src/index.ts';
import type { WorkOptions } from '../src/index.ts';

const there = hasRedis();
if (!there) console.warn('Queue tests are skipped: there is no redis-server (apt-get install redis-server)');
let redis: Awaited<ReturnType<typeof startRedis>>;
beforeAll(async () => {
  if (there) redis = await startRedis();
});
afterAll(() => redis?.stop());

let names = 0;
/** Returns a name that no other test uses. */
const name = (): string => `test-${names++}`;

/** Runs a worker until it is stopped. */
async function working(called: string, run: WorkOptions['run'], more: Partial<WorkOptions> = {}) {
  const stopping = new AbortController();
  let ended: Promise<void> = Promise.resolve();
  await new Promise<void>((onReady, reject) => {
    const options = { url: redis.url, name: called, concurrency: 1, lease: 1, run, signal: stopping.signal, onReady };
    ended = work({ ...options, ...more });
    ended.catch(reject);
  });
  return {
    ended,
    stop: (): Promise<void> => {
      stopping.abort();
      return ended;
    },
  };
}

// most of their time they wait
describe.runIf(there)('a queue', { concurrent: true }, () => {
  it('has a job done once, however many callers ask, and keeps its result until that is forgotten', async () => {
    const called = name(),
      ran: unknown[] = [],
      worker = await working(called, async (data) => ({ echo: ran.push(data) && data }));
    const first = await openQueue({ url: redis.url, name: called }),
      data = { text: 'ä "quoted" \u0000', number: 0.1 + 0.2 };
    const [one, two, same] = await Promise.all([first.ask(data), first.ask({ other: 1 }), first.ask(data)]);
    expect([one.result, two.result]).toEqual([{ echo: data }, { echo: { other: 1 } }]);
    expect(same.result).toEqual(one.result);
    await first.close(); // as if it were killed: nothing was forgotten
    const second = await openQueue({ url: redis.url, name: called }),
      again = await second.ask(data);
    expect(again.result).toEqual({ echo: data });
    expect(ran).toEqual([data, { other: 1 }]);
    await again.forget();
    await (await second.ask(data)).forget();
    expect(ran).toHaveLength(3);
    await second.close();
    await worker.stop();
  });
  it('brings the results of many jobs while none is forgotten', async () => {
    const called = name(),
      worker = await working(called, async (data) => ({ echo: data })),
      queue = await openQueue({ url: redis.url, name: called }),
      jobs = Array.from({ length: 9 }, (_, n) => ({ n })),
      came = await Promise.all(jobs.map((job) => queue.ask(job)));
    expect(came.map(({ result }) => result)).toEqual(jobs.map((echo) => ({ echo })));
    await Promise.all(came.map(({ forget }) => forget()));
    await queue.close();
    await worker.stop();
  });
  it('tells a refusal at once, tries what broke again, and asks again for what failed before', async () => {
    const called = name(),
      tries: Record<string, number> = {};
    const worker = await working(called, async (data) => {
      const { kind } = data as { kind: string };
      tries[kind] = (tries[kind] ?? 0) + 1;
      if (kind === 'refused') throw new KvError('job', 'expected something else,\ngot this');
      if (kind === 'broken' || tries[kind] < 3) throw new Error('out of memory');
      return { tries: tries[kind] };
    });
    const queue = await openQueue({ url: redis.url, name: called });
    await expect(queue.ask({ kind: 'refused' })).rejects.toThrow(/^worker: job: expected something else, got this$/);
    await expect(queue.ask({ kind: 'broken' })).rejects.toThrow(/^worker: out of memory$/);
    expect((await queue.ask({ kind: 'shaky' })).result).toEqual({ tries: 3 });
    await expect(queue.ask({ kind: 'refused' })).rejects.toThrow('expected something else');
    expect(tries).toEqual({ refused: 2, broken: 3, shaky: 3 });
    await queue.close();
    await worker.stop();
  });
  it('tells a refusal at once, also where `run` throws it before it returns a promise', async () => {
    const called = name();
    let tries = 0;
    const worker = await working(called, () => {
        tries++;
        throw new KvError('job', 'expected something else, got this');
      }),
      queue = await openQueue({ url: redis.url, name: called });
    await expect(queue.ask({ a: 'job' })).rejects.toThrow(/^worker: job: expected something else, got this$/);
    expect(tries).toBe(1);
    await queue.close();
    await worker.stop();
  });
  it('takes data for the same whose keys come in another order, and other lists for other data', async () => {
    const called = name(),
      ran: unknown[] = [],
      worker = await working(called, async (data) => ({ run: ran.push(data) })),
      queue = await openQueue({ url: redis.url, name: called }),
      ask = async (data: object): Promise<unknown> => (await queue.ask(data)).result;
    expect(await ask({ a: [1, { b: 2, c: 3 }], d: 4 })).toEqual({ run: 1 });
    expect(await ask({ d: 4, a: [1, { c: 3, b: 2 }] })).toEqual({ run: 1 });
    expect(await ask({ a: [{ b: 2, c: 3 }, 1], d: 4 })).toEqual({ run: 2 });
    expect(ran[0]).toEqual({ a: [1, { b: 2, c: 3 }], d: 4 });
    await queue.close();
    await worker.stop();
  });
  it('refuses data that JSON cannot write', async () => {
    const queue = await openQueue({ url: redis.url, name: name() }),
      circle: Record<string, unknown> = {};
    circle.of = circle;
    for (const data of [{ n: 1n }, circle, { toJSON: () => undefined }]) {
      const asked = queue.ask(data); // throws nothing
      await expect(asked).rejects.toSatisfy(KvError.is);
      await expect(asked).rejects.toThrow(/^queue: expected a job whose data JSON can write, got .*: give texts, /);
    }
    await queue.close();
  });
  it('gives a job of a worker that is stopped to another', async () => {
    const called = name(),
      queue = await openQueue({ url: redis.url, name: called });
    let begun = (): void => {};
    const begins = new Promise<void>((resolve) => (begun = resolve)),
      slow = await working(called, async () => {
        begun();
        return new Promise(() => {}); // until it is stopped
      }),
      asked = queue.ask({ some: 'job' });
    await begins;
    await slow.stop();
    const other = await working(called, async () => ({ by: 'another' }));
    expect((await asked).result).toEqual({ by: 'another' });
    await queue.close();
    await other.stop();
  });
  it('lives through jobs that are no JSON, and through a Redis that forgot all', async () => {
    const called = name(),
      own = await startRedis(), // it is emptied
      { url } = own,
      client = new Redis(url),
      key = (rest: string): string => `kv:${called}:${rest}`;
    await client.hset(key('evil'), 'name', 'job', 'data', '{ no JSON', 'opts', '{}', 'timestamp', '0');
    await client.lpush(key('wait'), 'evil');
    const worker = await working(called, async (data) => ({ data }), { url }),
      queue = await openQueue({ url, name: called });
    expect((await queue.ask({ good: 1 })).result).toEqual({ data: { good: 1 } });
    await worker.stop();
    const asked = queue.ask({ good: 2 });
    await new Promise((resolve) => setTimeout(resolve, 500));
    await client.flushall();
    const next = await working(called, async (data) => ({ data }), { url });
    expect((await asked).result).toEqual({ data: { good: 2 } });
    await next.stop();
    await queue.close();
    client.disconnect();
    await own.stop();
  });
  it('brings a result to all who wait for it, though the first has it removed', async () => {
    const called = name(),
      callers = await Promise.all(
        Array.from({ length: 6 }, async (_, i) => {
          await new Promise((resolve) => setTimeout(resolve, 30 * i)); // they look at different times
          return openQueue({ url: redis.url, name: called });
        }),
      ),
      asked = callers.map(async (queue) => {
        const { result, forget } = await queue.ask({ of: 'all' });
        await forget();
        return result;
      });
    let runs = 0;
    const worker = await working(called, async () => ({ run: ++runs }));
    expect(await Promise.all(asked)).toEqual(callers.map(() => ({ run: 1 })));
    expect((await (callers[0] as (typeof callers)[0]).ask({ of: 'all' })).result).toEqual({ run: 2 });
    await Promise.all(callers.map((queue) => queue.close()));
    await worker.stop();
  });
  it('refuses what waits while Redis answers with errors, and brings what is asked later', async () => {
    const called = name(),
      queue = await openQueue({ url: redis.url, name: called }),
      client = new Redis(redis.url),
      asked = queue.ask({ some: 'job' });
    await client.set(`kv:${called}:completed`, 'no set');
    await expect(asked).rejects.toThrow(/^queue: expected to wait for the job, got .*WRONGTYPE.*; ask again$/);
    await client.del(`kv:${called}:completed`);
    const worker = await working(called, async (data) => ({ data }));
    expect((await queue.ask({ some: 'job' })).result).toEqual({ data: { some: 'job' } });
    await queue.close();
    await worker.stop();
    client.disconnect();
  });
  it('refuses what waits where onNoWorker throws, and brings what is asked later', async () => {
    const called = name(),
      onNoWorker = (): void => {
        throw new Error('no worker');
      },
      queue = await openQueue({ url: redis.url, name: called, onNoWorker });
    await expect(queue.ask({ a: 'job' })).rejects.toThrow(
      new KvError('queue', 'expected to wait for the job, got no worker; ask again'),
    );
    const worker = await working(called, async (data) => ({ data }));
    expect((await queue.ask({ a: 'job' })).result).toEqual({ data: { a: 'job' } });
    await queue.close();
    await worker.stop();
  });
  it('refuses what is not answered when it is closed, and what is asked then; jobs stay', async () => {
    const called = name(),
      queue = await openQueue({ url: redis.url, name: called }),
      closed = new KvError('queue', 'was closed before the answer; the job stays for workers');
    const asked = queue.ask({ a: 'job' });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await queue.close();
    await expect(asked).rejects.toThrow(closed);
    await expect(queue.ask({ another: 'job' })).rejects.toThrow(closed);
    const ran: unknown[] = [],
      worker = await working(called, async (data) => ({ ran: ran.push(data) }));
    await expect.poll(() => ran).toEqual([{ a: 'job' }]);
    await worker.stop();
  });
  it('reports once that there is no worker', async () => {
    const called = name();
    let told = 0,
      tell = (): void => {};
    const said = new Promise<void>((resolve) => (tell = resolve)),
      onNoWorker = (): void => {
        told++;
        tell();
      },
      queue = await openQueue({ url: redis.url, name: called, onNoWorker }),
      asked = queue.ask({ one: 1 });
    await said;
    const worker = await working(called, async () => ({}));
    await asked;
    expect(told).toBe(1);
    await queue.close();
    await worker.stop();
  });
  it('says in one sentence that Redis went away, to who asks and who works', async () => {
    const own = await startRedis(),
      called = name(),
      worker = await working(called, () => new Promise(() => {}), { url: own.url, reconnectSeconds: 1 }),
      queue = await openQueue({ url: own.url, name: called, reconnectSeconds: 1 }),
      asked = queue.ask({ one: 1 });
    asked.catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 300));
    await own.stop();
    const gone = /^redis:\/\/127\.0\.0\.1:\d+: expected Redis to come back within 1 s, got ECONNREFUSED$/;
    await expect(asked).rejects.toThrow(gone);
    await expect(worker.ended).rejects.toThrow(gone);
    await queue.close();
  });
});

describe('an address', () => {
  it('is refused in one sentence where it is none, or nothing listens, without its password', async () => {
    for (const url of ['localhost:6379', 'http://localhost', 'redis://', ''])
      await expect(openQueue({ url, name: 'x' }), url).rejects.toThrow(
        'queue: expected an address such as redis://127.0.0.1:6379, got none',
      );
    await expect(openQueue({ url: 'redis://me:50%hush@127.0.0.1', name: 'x' })).rejects.toThrow(
      new KvError('redis://127.0.0.1', 'expected %25 for each % of a password in the address, got a % alone'),
    );
    const port = await freePort();
    await expect(openQueue({ url: `redis://me:hush@127.0.0.1:${port}`, name: 'x' })).rejects.toThrow(
      new KvError(`redis://127.0.0.1:${port}`, 'expected a Redis server that answers, got ECONNREFUSED'),
    );
  });
  it.runIf(there)('is refused where Redis wants a password', async () => {
    const own = await startRedis(['--requirepass', 'hush']),
      wrong = own.url.replace('//', '//:guess@');
    for (const url of [own.url, wrong])
      await expect(openQueue({ url, name: 'x' }), url).rejects.toThrow(
        /^redis:\/\/127\.0\.0\.1:\d+: expected a Redis server that answers, got (?:NOAUTH|WRONGPASS)/,
      );
    const queue = await openQueue({ url: own.url.replace('//', '//:hush@'), name: 'x' });
    await queue.close();
    await own.stop();
  });
});
