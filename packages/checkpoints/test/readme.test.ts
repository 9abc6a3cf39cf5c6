import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeEmbeddedGguf } from '@kv/model-testing/embedded-gguf';
import { blocksOf, runBlock } from '@kv/model-testing/readme';
import { afterAll, expect, test } from 'vitest';
import * as checkpoints from '../src/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'kv-readme-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('the first lines read a GGUF file, render a chat and encode it, without an engine', async () => {
  const path = writeEmbeddedGguf(
      join(folder, 'model.gguf'),
      '{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}',
    ),
    [block] = blocksOf(new URL('../README.md', import.meta.url)),
    { config, tokenizer, text, ids, embedding } = (await runBlock(
      block.replaceAll("'model.gguf'", JSON.stringify(path)),
      { '@kv/checkpoints': checkpoints },
      ['config', 'tokenizer', 'text', 'ids', 'embedding'],
    )) as {
      config: checkpoints.ModelConfig;
      tokenizer: checkpoints.Tokenizer;
      text: string;
      ids: number[];
      embedding: checkpoints.Matrix;
    };
  expect(config.architecture).toBe('llama');
  expect(text).toBe('user: Who are you?\n');
  expect(tokenizer.decode(ids)).toBe(text);
  expect([embedding.outputs, embedding.inputs]).toEqual([config.vocab, config.hidden]);
});

test('the table of architectures has all of them', () => {
  const rows = readFileSync(new URL('../README.md', import.meta.url), 'utf8').match(
    /^\| [a-z0-9_]+ (?=\|(?:[^|\n\\]|\\.)*(?:\|(?:[^|\n\\]|\\.)*){6}\|$)/gm,
  );
  expect(rows?.map((row) => row.slice(2, -1)).sort()).toEqual(Object.keys(checkpoints.architectures).sort());
});
