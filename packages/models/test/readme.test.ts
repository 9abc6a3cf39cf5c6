import { readFileSync } from 'node:fs';
import { onlyAttention } from '@kv/checkpoints';
import { cacheForms, tokenBytes } from '@kv/engine';
import { blocksOf, runBlock } from '@kv/model-testing/readme';
import { expect, test } from 'vitest';
import * as core from '@kv/core';
import * as selectors from '@kv/selectors-top-k';
import * as models from '../src/index.ts';

const at = new URL('../README.md', import.meta.url),
  README = readFileSync(at, 'utf8'),
  [first, chats, draws, cache] = blocksOf(at),
  modules = { '@kv/models': models };

test('the first lines load, stream and say what they print', async () => {
  const { streamed, text, report } = await runBlock(first, modules, ['streamed', 'text', 'report']),
    { kept } = report as models.Report;
  expect(first).toContain(`// => ${[streamed === text, String(text).trim(), kept[0][0].length].join(' ')}\n`);
});
test('the lines about a conversation save it and go on from it, at its budget', async () => {
  const { later, text, report } = await runBlock(chats, modules, ['later', 'text', 'report']);
  expect(typeof text).toBe('string');
  expect((report as models.Report).budget).toBe(64);
  const kept = (later as models.Chat).sequence.kept().flat();
  expect(Math.max(...kept.map(({ length }) => length))).toBe(64);
});
test('the lines of core about signals of its own keep what they say', async () => {
  const text = readFileSync(new URL('../../core/README.md', import.meta.url), 'utf8'),
    [, own = ''] = /^```javascript\n(.*?)^```/ms.exec(text) ?? [],
    { one, two } = await runBlock(own, { ...modules, '@kv/core': core, '@kv/selectors-top-k': selectors }, [
      'one',
      'two',
    ]);
  for (const { report } of [one, two] as models.GenerateResult[]) {
    expect(report.counts.events).toBe(3);
    expect(Math.max(...report.kept.flat().map(({ length }) => length))).toBe(24);
  }
  expect((two as models.GenerateResult).report.counts['providerPasses']).toBe(3);
});
test('the lines about draws give the same text twice', async () => {
  const { text, again } = await runBlock(draws, modules, ['text', 'again']);
  expect(text).toMatch(/\S/);
  expect((again as models.GenerateResult).text).toBe(text);
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
test('the table of stored forms has the bytes of SmolLM2', () => {
  const rows = [...README.matchAll(/^\| `(\w+)` \|.*\| ([\d,]+) \| [.\d]+ \|$/gm)].map(([, form, bytes]) => [
    form,
    bytes,
  ]);
  expect(rows).toEqual(
    Object.keys(cacheForms).map((form) => [
      form,
      tokenBytes(form as models.CacheForm, { mixers: onlyAttention(30, { kvHeads: 3, headDim: 64 }) }).toLocaleString(
        'en',
      ),
    ]),
  );
});
