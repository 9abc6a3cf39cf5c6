import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { serve } from './serve.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const MiB = 2 ** 20;

test('what', { timeout: 300_000 }, async () => {
  const limit = 160 * MiB,
    on = await serve({ memory: limit, limits: { queue: 256 } });
  const words = (n: number): string => 'The river was wide. '.repeat(n / 5);
  const ask = (body: object) => on.post('/v1/completions', { temperature: 0, ...body });
  const settle = async (): Promise<number> => {
    for (let i = 0; i < 4; i++) {
      collect();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    return process.memoryUsage.rss();
  };
  await Promise.all([ask({ prompt: words(50), max_tokens: 4, logprobs: 3, n: 3 }), ask({ prompt: 'a'.repeat(30000) })]);
  const base = await settle();
  const show = (what: string) => {
    const m = on.server.memory;
    console.log(what, 'rss', ((process.memoryUsage.rss() - base) / 1e6).toFixed(0), Object.entries(m).map(([k, v]) => `${k} ${(v / 1e6).toFixed(0)}`).join(' '));
  };
  show('base');
  const bodies: (() => object)[] = [
    () => ({ prompt: words(1500), max_tokens: 40 }),
    () => ({ prompt: words(1500), max_tokens: 40, logprobs: 20, n: 8 }),
    () => ({ prompt: words(800), max_tokens: 4, logprobs: 20, echo: true }),
    () => ({ prompt: words(1500), max_tokens: 20, policy: 'snapkv(window=16)', budget: '25%' }),
    () => ({ prompt: words(1500), max_tokens: 20, policy: 'h2o', budget: 200, block: 64 }),
    () => ({ prompt: 'a'.repeat(36_000) }),
    () => ({ prompt: Array(128).fill('abc '.repeat(7000)) }),
  ];
  for (const [i, body] of bodies.entries()) {
    const watch = setInterval(() => show(`  ${i}`), 400);
    await Promise.all(Array.from({ length: 12 }, () => ask(body())));
    clearInterval(watch);
    show(`after ${i}`);
    await settle();
    show(`settled ${i}`);
  }
  void fc;
  expect(1).toBe(1);
  await on.server.close();
});
