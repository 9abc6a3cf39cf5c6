/** llama.cpp as a second reference for the tiny GGUF files that its converter wrote. */
import { fixture, greedy } from '@kv/model-testing/fixture';
import type { Token } from 'node-llama-cpp';
import { expect, test } from 'vitest';
import { llamaOf, sequenceOf } from './llama.ts';

const names = [
  'gemma4-experts',
  'granite_swa',
  'granitemoe',
  'granitemoehybrid',
  'granitemoehybrid-experts',
  'granitemoehybrid-untied',
  'lfm2',
  'lfm2-untied',
  'qwen3_5',
  'qwen3_5-untied',
  'qwen3_moe',
  'lfm2_moe',
  'qwen3_5_moe',
  'ministral3',
  'ministral3-untied',
  'olmo3',
];

test.each(names)('%s: the greedy tokens of the GGUF file are those of transformers', async (name) => {
  const model = await llamaOf(fixture(`${name}/model.gguf`)),
    sequence = await sequenceOf(model, 64),
    { after, tokens } = greedy(name, 'model.gguf');
  const got: number[] = [];
  for await (const id of sequence.evaluate(after as Token[], { temperature: 0, yieldEogToken: true })) {
    got.push(id);
    if (got.length === tokens.length) break;
  }
  expect(got).toEqual(tokens);
});
