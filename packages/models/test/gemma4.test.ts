import { describe, expect, test } from 'vitest';
import { referenceEngine } from '@kv/engine';
import { emptyCaches, relative, run } from '@kv/engine-testing/run';
import { fixture, goldenOutputs, greedy } from '@kv/model-testing/fixture';
import { generate, loadModel } from '../src/index.ts';

const files = ['gemma4', 'gemma4-unshared', 'gemma4-keys'].flatMap((name) =>
  ['.', 'model.gguf'].map((file) => [name, file] as const),
);

describe.each(files)('%s/%s in plain loops', (name, file) => {
  test('logits are those of transformers, in blocks of any size, and so are 32 tokens that follow', async () => {
    const model = await loadModel(fixture(`${name}/${file}`), { engine: referenceEngine() });
    for (const { ids, logits } of goldenOutputs(name, file))
      for (const block of [ids.length, 1, 7, 64]) {
        const want = Object.keys(logits).map(Number),
          rows = await run(model.decoder, emptyCaches(model.decoder), ids, { want, block });
        for (const [i, at] of want.entries())
          expect(relative(rows[i], logits[at]), `${at}, ${block}`).toBeLessThan(1e-5);
      }
    const { after, tokens } = greedy(name, file),
      answer = await generate(model, { ids: after, maxNewTokens: tokens.length, stopAtEos: false });
    expect(answer.tokens).toEqual(tokens);
    model.destroy();
  });
});
