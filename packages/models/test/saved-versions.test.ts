import { fixture } from '@kv/model-testing/fixture';
import { readFileSync } from 'node:fs';
import { KvError, parsePolicy, registry } from '@kv/core';
import * as attention from '@kv/scorers-attention';
import * as caote from '@kv/scorers-caote';
import * as sponsorship from '@kv/scorers-sponsorship';
import * as topK from '@kv/selectors-top-k';
import { beforeAll, expect, test } from 'vitest';
import { loadCache, loadModel } from '../src/index.ts';
import type { Model } from '../src/index.ts';

/** Written by `saveCache` in Node 20 before pieces were declared, with how each went on then. */
const FIXTURES = fixture('');
interface Former {
  readonly label: string;
  readonly next: readonly number[];
  readonly logits: readonly number[];
  readonly kept: readonly unknown[];
}
const former = JSON.parse(readFileSync(`${FIXTURES}saved/version-1.json`, 'utf8')) as Readonly<Record<string, Former>>;
const bytesOf = (name: string): Uint8Array => new Uint8Array(readFileSync(`${FIXTURES}saved/${name}.safetensors`));
/** Whether powers, of which names of checkpoints with Llama 3's scaling were made then, are those of Node 20. */
const sameNames = 10_000 ** (2 / 16) === 3.162277660168379;
const known = registry({ attention, caote, sponsorship, topK });

let model: Model;
beforeAll(async () => {
  model = await loadModel(`${FIXTURES}llama`);
});

/** The same cache, loaded and saved again since names leave out the last bits of powers. */
const sure = { 'any-node': former.streaming };
const cases = Object.entries(sameNames ? { ...former, ...sure } : sure);
test.each(cases)('a cache of version 1 by %s goes on as it did', async (name, then) => {
  let label = '';
  const loaded = await loadCache(model, bytesOf(name), {
    policy: (given) => parsePolicy((label = given), known),
    window: 48,
  });
  expect(label).toBe(then.label);
  await loaded.prefill(then.next);
  expect(loaded.kept()).toEqual(then.kept);
  for (const [i, logit] of loaded.logits.at(-1)!.entries()) expect(logit).toBeCloseTo(then.logits[i], 4);
  loaded.destroy();
});

test.each(sameNames ? [] : Object.keys(former))('the name in %s, made of other powers, is refused', async (name) => {
  await expect(loadCache(model, bytesOf(name))).rejects.toThrow(
    /^saved cache: expected a cache of .*, got one of another model/,
  );
});

test.each([0, 2, 9])('one of version %s is refused in one sentence', async (version) => {
  const other = Buffer.from(bytesOf('streaming'));
  other.write(String(version), other.indexOf('\\"version\\":1') + 12);
  const error: unknown = await loadCache(model, other).catch((cause: unknown) => cause);
  expect(KvError.is(error)).toBe(true);
  expect((error as KvError).message).toBe(`saved cache: expected a saved cache of version 1, got version ${version}`);
});
