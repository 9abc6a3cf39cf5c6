/** Models with routed experts under policies: the module, layer by layer, against plain loops. */
import { referenceEngine } from '@kv/engine';
import { fixture } from '@kv/model-testing/fixture';
import { relative } from '@kv/engine-testing/run';
import { expect, test } from 'vitest';
import { cpuRuntime, generate, loadModel } from '../src/index.ts';

const ids = Array.from({ length: 40 }, (_, i) => 3 + ((7 * i * i + 11 * i) % 61)),
  policies = [
    ['h2o(recent=4)', { budget: 14, every: 3 }],
    ['snapkv(window=4)', { budget: 12 }],
    ['quest(page=4,slots=8,dense=0)', {}],
  ] as const;

test.each(['gpt_oss', 'qwen3_moe', 'lfm2_moe', 'qwen3_5_moe', 'gemma4-experts', 'granitemoehybrid-experts'])(
  '%s: tokens, logits and slots are those of plain loops, with and without eviction',
  async (name) => {
    const plain = await loadModel(fixture(name), { engine: referenceEngine() }),
      module = await loadModel(fixture(name), { runtime: cpuRuntime({ exact: true }) });
    for (const [policy, options] of policies) {
      const asked = { ids, policy, block: 16, maxNewTokens: 12, logits: 2, ...options },
        [want, got] = [await generate(plain, asked), await generate(module, asked)];
      expect(got.tokens, policy).toEqual(want.tokens);
      expect(got.report.kept, policy).toEqual(want.report.kept);
      for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row), policy).toBeLessThan(2e-5);
    }
    module.destroy();
  },
);
