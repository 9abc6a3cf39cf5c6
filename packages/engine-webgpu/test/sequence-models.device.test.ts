import { generate } from '@kv/models';
import { policy } from '@kv/policies';
import { expect } from 'vitest';
import { familyFiles, wanted } from './families.ts';
import { gpuTests } from './device.ts';
import { golden } from './goldens.ts';
import { both, fixture, json, relative, said } from './sequences.ts';

const gpuTest = await gpuTests();

const FULL = process.env.KV_FULL === '1';

// of a family with a folder and a GGUF file, KV_FULL=1 takes both, and of Granite SWASH both configurations
for (const [name, file] of familyFiles.filter(
  ([name], i) => FULL || !(name === 'granite_swa-thetas' || familyFiles.slice(0, i).some(([other]) => other === name)),
))
  gpuTest(`${name}/${file}: logits as transformers'; under a policy tokens, logits and report as on the host`, (gpu) =>
    both(gpu, fixture(`${name}/${file}`), async (host, device) => {
      const [{ ids, logits }] = wanted(name, file);
      const options = {
        ids,
        policy: policy('h2o', { recent: 4 }),
        budget: 12,
        block: 16,
        every: 3,
        maxNewTokens: 6,
        logits: 7,
      };
      const want = await generate(host, options),
        got = await generate(device, options);
      expect(got.tokens).toEqual(want.tokens);
      for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row)).toBeLessThan(2e-5);
      expect(said(got.report)).toEqual(said(want.report));
      const whole = await generate(device, { ids, maxNewTokens: 0, logits: 1 });
      expect(relative(whole.logits![0], logits[ids.length - 1])).toBeLessThan(1e-5);
    }),
  );

gpuTest('qwen3: tokens, logits and report as on the host', (gpu) =>
  both(gpu, golden('qwen3'), async (host, device) => {
    const { ids } = json<{ ids: number[] }>(`${golden('qwen3')}/golden.json`),
      options = {
        ids: ids.slice(0, 30),
        policy: policy('snapkv', { window: 4 }),
        budget: 12,
        block: 16,
        every: 3,
        maxNewTokens: 4,
        logits: 2,
      };
    const want = await generate(host, options),
      got = await generate(device, options);
    expect(got.tokens).toEqual(want.tokens);
    for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row)).toBeLessThan(2e-5);
    expect(said(got.report)).toEqual(said(want.report));
  }),
);

const CASES = [
  ['full', undefined, undefined],
  ['snapkv', 10, 5],
  ['tova', 6, 1],
  ['kvzip', 9, undefined],
  ['quest', 8, undefined],
] as const;
// every policy where all layers have a window, and on each of the others, which mix layers, one of them, or some with
// KV_FULL=1
for (const [name, cases] of [
  ['mistral', CASES],
  ['gemma3', CASES.slice(FULL ? 0 : 1, 2)],
  ['smollm3', CASES.slice(FULL ? 2 : 4)],
] as const)
  gpuTest(`${name}: what windows made unreachable is freed as on the host, under steps ahead and events too`, (gpu) =>
    both(gpu, fixture(name), async (host, device) => {
      const ids = Array.from({ length: 30 }, (_, i) => 3 + ((7 * i * i + 11 * i) % 61));
      for (const [name, budget, every] of cases) {
        const options = {
          ids,
          policy: policy(name, name === 'snapkv' ? { window: 4 } : {}),
          ...(budget !== undefined && { budget }),
          ...(every !== undefined && { every }),
          maxNewTokens: 20,
          logits: 3,
        };
        const want = await generate(host, options),
          got = await generate(device, options);
        expect(got.tokens, name).toEqual(want.tokens);
        expect(said(got.report), name).toEqual(said(want.report));
        expect(got.report.counts['unreachable'], name).toBe(want.report.counts['unreachable']);
        for (const [i, row] of want.logits!.entries()) expect(relative(got.logits![i], row)).toBeLessThan(2e-5);
      }
    }),
  );
