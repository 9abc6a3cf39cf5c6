import { blocksOf, runBlock } from '@kv/model-testing/readme';
import { expect, test } from 'vitest';
import * as models from '../src/index.ts';

const [first, cache] = blocksOf(new URL('../README.md', import.meta.url)),
  modules = { '@kv/models': models };

test('the first lines load, stream and say what they print', async () => {
  const { streamed, text, report } = await runBlock(first, modules, ['streamed', 'text', 'report']),
    { kept } = report as models.Report;
  expect(first).toContain(`// => ${[streamed === text, String(text).trim(), kept[0][0].length].join(' ')}\n`);
});
test('the lines about a cache save it, go on from it and share a prefix', async () => {
  const { sequence, again, answer } = (await runBlock(cache.replace("'model.gguf'", "'embedded'"), modules, [
    'sequence',
    'again',
    'answer',
  ])) as Record<string, models.Sequence>;
  expect(again.kept()).toEqual(sequence.kept());
  expect(answer.progress.length).toBeGreaterThan(0);
});
