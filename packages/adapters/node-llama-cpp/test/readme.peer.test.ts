import { join } from 'node:path';
import { blocksOf, importedBy, installedBy, runBlock } from '@kv/model-testing/readme';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import * as policies from '@kv/policies';
import * as llama from 'node-llama-cpp';
import type { LlamaChatSession, LlamaContextSequence } from 'node-llama-cpp';
import { expect, test } from 'vitest';
import * as adapter from '../src/index.ts';
import { folder, textOf } from './llama.ts';

const readme = new URL('../README.md', import.meta.url),
  modules = {
    'node-llama-cpp': {
      ...llama,
      getLlama: () =>
        llama.getLlama({ gpu: false, build: 'never', skipDownload: true, logLevel: llama.LlamaLogLevel.error }),
    },
    '@kv/adapters-node-llama-cpp': adapter,
    '@kv/policies': policies,
  },
  [tokens, history] = blocksOf(readme),
  small = tokens
    .replace("'model.gguf'", JSON.stringify(writeEmbeddedGguf(join(folder, 'readme.gguf'))))
    .replace('contextSize: 4096', 'contextSize: 256, threads: 1')
    .replace('budget: 2048', 'budget: 160');

test('its first lines install what they import, and keep the sentence that says a code', async () => {
  expect(importedBy(readme).toSorted()).toEqual(installedBy(readme).toSorted());
  const { sequence: made } = await runBlock(small, modules, ['sequence']),
    sequence = made as LlamaContextSequence,
    add = (text: string): Promise<void> => sequence.evaluateWithoutGeneratingNewTokens(sequence.model.tokenize(text));
  await add('The boys walked on in silence. The secret code is: XK7M9P2Q. ');
  for (let i = 0; i < 80; i++) await add('No one came to the market on that day. ');
  expect(textOf(sequence)).toContain('The secret code is: XK7M9P2Q.');
});

test('a chat session takes the strategy of the second block', async () => {
  const { session } = await runBlock(small.replace(/^const sequence = .*\n/m, '') + history, modules, ['session']);
  expect((session as LlamaChatSession).context.contextSize).toBe(256);
});
