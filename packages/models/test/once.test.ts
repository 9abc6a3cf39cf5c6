import { countCalls } from '@kv/model-testing/count-calls';
import { beforeAll, expect, test } from 'vitest';
import { generate, loadModel } from '../src/index.ts';
import type { GenerateOptions, Model } from '../src/index.ts';
import { reference } from '@kv/model-testing/reference';

let model: Model;
const ids = [...Array(24).keys()];
beforeAll(async () => {
  model = await loadModel(reference('data/goldens/llama'));
  await generate(model, { ids, maxNewTokens: 1 }); // every sequence starts with the policy that evicts nothing
  await import('@kv/policies');
});

test.each<[GenerateOptions, number]>([
  [{ policy: 'snapkv(window=2) | caote | topK', budget: 8 }, 1],
  [{ policy: 'snapkv(window=2) | topK', budget: 8, block: 6, every: 2 }, 1],
  [{ policy: 'h2o(recent=2)', budget: 8, decodePolicy: 'keydiff', decodeBudget: 10, every: 2 }, 2],
])('generate reads and compiles each policy once: %j', async (options, policies) => {
  const counted = await countCalls(['policyCalls', 'compileUncached'], () =>
    generate(model, { ids, maxNewTokens: 5, ...options }),
  );
  expect(counted).toEqual({ policyCalls: policies, compileUncached: policies });
});
