import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { serve } from './serve.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const words = (tokens: number): string => 'The river was wide. '.repeat(tokens / 5);

/** Requests of every kind that takes memory: caches, blocks, logprobs, echoes, long texts and many prompts. */
const bodies = fc.oneof(
  fc.record({
    tokens: fc.integer({ min: 100, max: 1500 }),
    max_tokens: fc.integer({ min: 1, max: 40 }),
    way: fc.constantFrom(
      {},
      { policy: 'snapkv(window=16)', budget: '25%' },
      { policy: 'h2o', budget: 200, block: 64 },
      { policy: 'pool(snapkv(window=8),kernel=4095) | topK', budget: '50%' },
      { policy: 'streaming', budget: 64, block: 32 },
    ),
    more: fc.constantFrom({}, { logprobs: 20, n: 6 }, { echo: true, logprobs: 20 }, { n: 4 }),
  }),
  fc.record({ letters: fc.integer({ min: 1000, max: 36_000 }) }),
  fc.record({ prompts: fc.integer({ min: 2, max: 128 }) }),
  fc.record({ ids: fc.integer({ min: 1000, max: 800_000 }) }),
);
/** A body; its size stands for its text, so that a failure is short. */
function bodyOf({ tokens, letters, prompts, ids, way, more, ...body }: Record<string, any>): object {
  if (letters !== undefined) return { prompt: 'a'.repeat(letters) };
  if (prompts !== undefined) return { prompt: Array<string>(prompts).fill('abc '.repeat(5000)) };
  if (ids !== undefined) return { prompt: Array<number>(ids).fill(7) };
  return { prompt: words(tokens), ...body, ...way, ...more };
}

test('the memory of the process is what the server says, and stays within what it was given', {
  timeout: 300_000,
}, async () => {
  const on = await serve({ memory: 320 * 2 ** 20, limits: { queue: 256 } }),
    { limit } = on.server.memory;
  const ask = async (body: object): Promise<number> =>
    (await on.post('/v1/completions', { temperature: 0, ...body })).status;
  const resident = async (): Promise<number> => {
    for (let i = 0; i < 4; i++) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    const { rss, heapTotal, heapUsed } = process.memoryUsage();
    return rss - (heapTotal - heapUsed); // what the collector keeps free
  };
  // what the compiler and the engine take once
  await Promise.all([
    ask({ prompt: words(300), max_tokens: 4, logprobs: 3, n: 3 }),
    ask({ prompt: 'a'.repeat(30_000) }),
  ]);
  const before = (await resident()) - on.server.memory.held;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage.rss() - before);
  }, 20);
  await fc.assert(
    fc.asyncProperty(fc.array(bodies, { minLength: 8, maxLength: 16 }), async (all) => {
      const statuses = await Promise.all(all.map((each) => ask(bodyOf(each))));
      expect(statuses.every((status) => [200, 400, 413].includes(status))).toBe(true);
      const held = (await resident()) - before;
      expect(Math.abs(held - on.server.memory.held), `${held} bytes, said ${on.server.memory.held}`).toBeLessThan(
        0.2 * limit,
      );
    }),
    { numRuns: 4, endOnFailure: true },
  );
  clearInterval(watch);
  console.info(`most ${(most / 1e6).toFixed(0)} of ${(limit / 1e6).toFixed(0)} MB`);
  expect(most).toBeLessThan(1.2 * limit);
  const { peak, sequences, requests } = on.server.memory;
  expect(peak).toBeLessThanOrEqual(limit);
  expect([sequences, requests]).toEqual([0, 0]);
  await on.server.close();
});
