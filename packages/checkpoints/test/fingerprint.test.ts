import { fixture } from '@kv/model-testing/fixture';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseConfig } from '../src/config/config.ts';
import type { ModelConfig } from '../src/config/config.ts';
import { withFingerprint } from '../src/load/fingerprint.ts';

const read = (name: string): ModelConfig => {
  const path = fixture(`${name}/config.json`);
  return parseConfig(JSON.parse(readFileSync(path, 'utf8')), name);
};
const names = (config: ModelConfig) => withFingerprint({ norm: new Float32Array([1, 2]) }).names(config);
/** Scales a configuration's frequencies by a factor, as another engine's powers differ in the last bit. */
const off = (config: ModelConfig, by: number): ModelConfig => ({
  ...config,
  ropes: config.ropes.map(({ divisors, attentionFactor, ...rope }) => ({
    ...rope,
    ...(divisors && { divisors: divisors.map((x) => (x === 1 ? x : x * by)) }),
    ...(attentionFactor !== undefined && { attentionFactor: attentionFactor * by }),
  })),
});

test.each(['llama', 'qwen3-yarn'])('%s is named alike whatever the last bit of its powers', async (name) => {
  const config = read(name),
    here = await names(config),
    there = await names(off(config, 1 + Number.EPSILON));
  expect(there.fingerprint).toBe(here.fingerprint);
  expect((await names(off(config, 1 + 1e-5))).fingerprint).not.toBe(here.fingerprint);
});
