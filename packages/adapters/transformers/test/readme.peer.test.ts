import * as transformers from '@huggingface/transformers';
import { blocksOf, importedBy, installedBy, runBlock } from '@kv/model-testing/readme';
import { expect, test } from 'vitest';
import * as adapter from '../src/index.ts';
import { exported } from './exported.ts';
import { TEXT } from './generated.ts';

const readme = new URL('../README.md', import.meta.url),
  modules = {
    '@huggingface/transformers': transformers,
    '@kv/adapters-transformers': adapter,
  };

test('its first lines install what they import, and run', async () => {
  expect(importedBy(readme).toSorted()).toEqual(installedBy(readme).toSorted());
  const { folder } = await exported(),
    [code] = blocksOf(readme),
    small = code
      .replace(/'HuggingFaceTB\/[^']+'/, JSON.stringify(folder))
      .replace("'attendedSentences'", "'snapkv(window=8)'")
      .replace('budget: 1024', 'budget: 40')
      .replace('block: 512', 'block: 24')
      .replace(/'Once[^']*'/, JSON.stringify(TEXT))
      .replace('max_new_tokens: 100', 'max_new_tokens: 6'),
    { model, text } = await runBlock(small, modules, ['model', 'text']);
  expect(String(text).startsWith(TEXT)).toBe(true);
  expect(String(text).length).toBeGreaterThan(TEXT.length);
  expect((model as { stats(): adapter.Stats }).stats()).toMatchObject({
    slots: 40 + 5,
    policy: 'snapkv(window=8) ∘ topK',
  });
});
