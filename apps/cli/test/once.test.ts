import { countCalls } from '@kv/model-testing/count-calls';
import { beforeAll, expect, test } from 'vitest';
import { kv } from './terminal.ts';

const run = (...more: readonly string[]) => kv(['run', 'The code is 7.', '--max-new-tokens', '3', ...more]);
beforeAll(() => run()); // the policy that evicts nothing is every sequence's first

test.each([
  [['--policy', 'snapkv(window=2) | topK', '--budget', '50%'], 1],
  [['--policy', 'snapkv(window=2)', '--budget', '4', '--decode-policy', 'keydiff', '--every', '2'], 2],
])('kv run reads and compiles each policy once: %j', async (flags, policies) => {
  const counted = await countCalls(['policyCalls', 'compileUncached'], async () => {
    expect(await run(...flags)).toMatchObject({ code: 0 });
  });
  expect(counted).toEqual({ policyCalls: policies, compileUncached: policies });
});
