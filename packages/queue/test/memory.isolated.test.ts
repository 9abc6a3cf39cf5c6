import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { hasRedis, startRedis } from '@kv/model-testing/redis';
import { expect, test } from 'vitest';
import { openQueue, work } from '../src/index.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

test.runIf(hasRedis())('a worker does not hold the results of jobs that it has done', async () => {
  const redis = await startRedis(),
    place = { url: redis.url, name: 'memory' },
    stopping = new AbortController(),
    results: WeakRef<object>[] = [],
    run = async (data: unknown): Promise<object> => {
      const result = { echo: data };
      results.push(new WeakRef(result));
      return result;
    },
    ended = work({ ...place, concurrency: 2, lease: 10, run, signal: stopping.signal }),
    queue = await openQueue(place);
  await Promise.all(Array.from({ length: 20 }, (_, n) => queue.ask({ n })));
  await new Promise((resolve) => setTimeout(resolve, 100));
  collect();
  expect(results).toHaveLength(20);
  expect(results.filter((result) => result.deref() !== undefined).length).toBeLessThan(5); // the last ones may be in use
  await queue.close();
  stopping.abort();
  await ended;
  await redis.stop();
});
