import { beforeAll, describe, expect, test } from 'vitest';
import { generate, loadModel, type HostModel } from '../src/index.ts';
import { fixture, greedy, wanted } from './fixture.ts';
import { emptyCaches, relative, run } from './run.ts';

const withGguf = [
  'llama',
  'qwen2',
  'qwen3',
  'phi3',
  'gemma2',
  'gemma3',
  'smollm3',
  'olmo2',
  'granite',
  'llama32',
  'phi4',
  'nemo',
  'qwen3-yarn',
];
const folders = ['mistral', ...withGguf].map((name) => [name, '.'] as const);
const files = withGguf.map((name) => [name, 'model.gguf'] as const);

describe.each([...folders, ...files])('%s/%s', (name, file) => {
  let model: HostModel;
  beforeAll(async () => {
    model = await loadModel(fixture(`${name}/${file}`));
  });

  test('logits are those of transformers within 1e-5 of the largest, in blocks of any size', async () => {
    for (const { ids, logits } of wanted(name, file))
      for (const block of [ids.length, 1, 7]) {
        const want = Object.keys(logits).map(Number),
          rows = await run(model.decoder, emptyCaches(model.decoder), ids, { want, block });
        for (const [i, at] of want.entries())
          expect(relative(rows[i], logits[at]), `position ${at} of ${ids.length}, blocks of ${block}`).toBeLessThan(
            1e-5,
          );
      }
  });

  test('the host gives the same, whole and in blocks', async () => {
    for (const { ids, logits } of wanted(name, file))
      for (const block of [ids.length, 5]) {
        const { logits: last } = await generate(model, { ids, block, maxNewTokens: 0, logits: 1 });
        expect(relative(last![0], logits[ids.length - 1])).toBeLessThan(1e-5);
      }
  });

  test('the likeliest tokens that follow are those of transformers', async () => {
    const { after, tokens } = greedy(name, file);
    const answer = await generate(model, { ids: after, maxNewTokens: tokens.length, stopAtEos: false });
    expect(answer.tokens).toEqual(tokens);
  });

  test('the tokenizer comes with it', () => {
    const { ids } = model.tokenizer.encode('the cat, a th');
    expect(ids.length).toBe(11);
    expect(model.tokenizer.decode(ids)).toBe('the cat, a th');
    expect([model.config.bosId, model.config.eosIds]).toEqual([1, [2]]);
  });
});
