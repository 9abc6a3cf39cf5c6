import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { etf } from '@kv/allocators-schedules';
import { id, type Policy } from '@kv/core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cpuRuntime, generate, loadModel, Sequence, type HostModel } from '../src/index.ts';
import { wasmRuntime } from '@kv/engine-wasm';
import { modules } from './modules.ts';
import { fixtureJson } from '@kv/model-testing/fixture';
import { expectAnswer, expectLogits, type Case } from './real-model.ts';
import { excerpt } from '@kv/model-testing/reference';
import { smollm2File } from '@kv/model-testing/smollm2-file';

interface Reference {
  readonly sha256: string;
  readonly chat: Case & { readonly question: string; readonly prompt: string };
  readonly prose: Case & { readonly file: string; readonly start: number; readonly length: number };
}

const path = smollm2File('logits and answers of SmolLM2');

const { sha256, chat, prose } = fixtureJson<Reference>('smollm2.json');

describe.skipIf(path === undefined)('SmolLM2-135M-Instruct, Q4_1, in f32', () => {
  const prompt = {
    chat: chat.prompt,
    prose: excerpt(prose.file, prose.start, prose.length),
  };
  const cases = [
    ['chat', chat, 16],
    ['prose', prose, 100],
  ] as const;
  let model: HostModel;
  beforeAll(async () => {
    model = await loadModel(path!, { runtime: cpuRuntime({ exact: true }) });
  }, 120_000);
  afterAll(() => model.destroy());

  test('is the file that the reference read', () => {
    expect(createHash('sha256').update(readFileSync(path!)).digest('hex')).toBe(sha256);
  });

  test('the chat template of the file makes the prompt', () => {
    expect(model.chatTemplate!()!([{ role: 'user', content: chat.question }])).toBe(chat.prompt);
    expect(model.tokenizer.encode(prompt.chat).ids).toEqual(chat.ids);
    expect(model.tokenizer.encode(prompt.prose).ids).toEqual(prose.ids);
  });

  test.each(cases)('logits of the %s prompt, whole and in blocks', async (_, reference, block) => {
    for (const size of [reference.ids.length, block]) await expectLogits(model, reference, size);
  });

  test('ETF costs hundredths of a nat on rows never frozen, and more than one with copied keys (PrHS, IV-C and app. G)', async () => {
    const text = excerpt('pride-and-prejudice.txt', 50_000, 3500),
      ids = model.tokenizer.encode(text).ids.slice(0, 640),
      live = ids.length / 2; // psi = 0.5
    const nats = async (policy: Policy): Promise<number> => {
      const sequence = new Sequence(model);
      await sequence.prefill(ids, { policy, rows: live });
      const losses = (await sequence.logits()).slice(0, -1).map((row, i) => {
        const top = row.reduce((a, b) => Math.max(a, b), -Infinity),
          sum = row.reduce((a, x) => a + Math.exp(x - top), 0);
        return Math.log(sum) + top - row[ids[live + i + 1]];
      });
      sequence.destroy();
      return losses.reduce((a, b) => a + b, 0) / losses.length;
    };
    const full = await nats(id),
      projected = await nats(etf()),
      copied = await nats(etf({ reuse: 'kv' }));
    expect(projected - full).toBeLessThan(0.1);
    expect(projected).not.toBe(full);
    expect(copied - full).toBeGreaterThan(1);
  });

  test.each(cases)('the greedy answer to the %s prompt, as tokens and as text', async (name, reference) =>
    expectAnswer(model, reference, prompt[name]),
  );
});

/**
 * Mean and maximum error over the positions, relative to the largest logit. llama.cpp with its 8-bit activations is off
 * by 3.5 to 6.8 % at the worst of 16 positions (bench/results/peers-node24*.md), this engine by 2.2 % at the median and
 * 4.5 to 6.3 % at the worst of 64.
 */
const [MEAN, MOST] = [0.045, 0.075];

describe.skipIf(path === undefined).each(modules)('SmolLM2-135M-Instruct, Q4_1, weights as stored, %s', (_, fast) => {
  test.for([
    ['chat', chat],
    ['prose', prose],
  ] as const)('logits of the %s prompt as far off as llama.cpp is, clear first tokens equal', async ([, prompt]) => {
    const model = await loadModel(path!, { runtime: wasmRuntime(fast, { threads: 2 }) }),
      { logits } = await generate(model, {
        ids: prompt.ids,
        maxNewTokens: 0,
        logits: prompt.ids.length,
        block: 100,
      });
    const off = prompt.logits.map(({ at, top }) => {
      const row = logits![at],
        [first, largest] = top[0],
        most = Math.max(...top.map(([id, logit]) => Math.abs(row[id] - logit))) / largest;
      expect(most, `position ${at}`).toBeLessThan(MOST);
      // clear: further from the second than both errors
      if (largest - top[1][1] > 2 * MOST * largest) expect(row.indexOf(Math.max(...row)), `position ${at}`).toBe(first);
      return most;
    });
    expect(off.reduce((a, b) => a + b) / off.length).toBeLessThan(MEAN);
    model.destroy();
  });
});
