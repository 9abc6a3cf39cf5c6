import { fixture } from '@kv/model-testing/fixture';
import { inTurn } from '@kv/model-testing/in-turn';
import { KvError } from '@kv/core';
import { compile } from '@kv/core/engine';
import { generate, loadModel } from '../../src/index.ts';
import { describe, expect, test } from 'vitest';
import { policy as named, policyNames } from '@kv/policies';

/** Text of letters and full stops, 110 tokens, so that there are sentences to cut at. */
const text = Array.from('abcdefghij', (letter) => `${letter} cat sat. `).join('');

const names = inTurn(policyNames, 3);

/** Windows of 8 in six of seven layers and two ropes; a layer without positions; windows of 6 everywhere. */
describe.each(['gemma3', 'smollm3', 'mistral'])('%s', async (folder) => {
  const model = await loadModel(fixture(folder)),
    { ids } = model.tokenizer.encode(text),
    { windows } = model.config.attention;

  test.each(names)('%s keeps what it may of the slots that there are, or says why not', async (name) => {
    const policy = named(name, name.startsWith('crystalcache') ? { recent: 16 } : {}),
      { evicts } = compile(policy);
    for (const options of [{ every: 5 }, { block: 30, every: 1 }]) {
      const run = generate(model, {
        ids,
        policy,
        ...(evicts && { budget: 80 }),
        ...options,
        maxNewTokens: 12,
        stopAtEos: false,
        logits: 1,
      });
      const done = await Promise.resolve(run).catch((error: unknown) => error);
      if (done instanceof Error) {
        expect(done, name).toBeInstanceOf(KvError);
        // Only these are refused: a sidecar file that these checkpoints lack, layers that rotate differently, or a
        // second pass over the prompt that does not fit their 128 positions.
        expect(done.message, name).toMatch(
          /^[a-zA-Z]+: takes early tokens' keys|\.safetensors|^policy: '[^']+' reads \d+ tokens once more over the prompt, which together must fit the model's context of 128 tokens, got \d+: take a shorter prompt/,
        );
        continue;
      }
      const { report, logits, tokens } = done as Awaited<ReturnType<typeof generate>>;
      expect(tokens.length).toBe(12);
      expect(logits![0].every(Number.isFinite)).toBe(true);
      for (const [l, heads] of report.kept.entries())
        for (const [g, positions] of heads.entries()) {
          expect(positions).toEqual([...new Set(positions)].sort((a, b) => a - b));
          expect(positions.length).toBeGreaterThan(0);
          if (report.budgets.length === 0) continue;
          expect(positions.length, `${name}, layer ${l}`).toBeLessThanOrEqual(report.budgets[l][g]);
          expect(positions.length, `${name}, layer ${l}`).toBeLessThanOrEqual(windows[l]);
          expect(positions.at(-1)! - positions[0], `${name}, layer ${l}`).toBeLessThan(windows[l]);
        }
    }
  });
});
