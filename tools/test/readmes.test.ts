import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { inTurn } from '../../packages/model-testing/src/in-turn.ts';
import { declared } from '../lib/declared.mjs';
import { architecture } from '../lib/architecture.mjs';
import { onTrial, piecePackages, published } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';
import { examples, runExample } from '../lib/readme.mjs';
import { readmes, refreshed } from '../lib/readme-tables.mjs';

const packed = inject('packed');
const withPieces = new Set(piecePackages().map(({ folder }) => folder));
const pieces = packed.filter(({ folder }) => folder.split('/').length === 3 && withPieces.has(folder));

describe.each(inTurn(pieces, 2))('the README of $name', ({ folder }) => {
  const blocks: readonly string[] = examples(folder);

  test('has an example in a ts block, which runs and prints what its `// =>` comments say', async () => {
    expect(blocks.length).toBeGreaterThan(0);
    for (const code of blocks) {
      const printed = await runExample(folder, code);
      expect(printed).not.toBe('');
      for (const [, said = ''] of code.matchAll(/\/\/ => (.*)$/gm)) expect(printed).toContain(said);
    }
  });
});

test('docs/architecture.svg draws what manifests say; if not, run `npm run architecture`', () => {
  const drawn = architecture(published().filter(({ folder }) => !onTrial(folder)));
  expect(readFileSync(join(root, 'docs/architecture.svg'), 'utf8')).toBe(drawn);
});

test('the README has at most 800 words', () => {
  expect(readFileSync(join(root, 'README.md'), 'utf8').split(/\s+/).filter(Boolean).length).toBeLessThanOrEqual(800);
});

describe('tables in READMEs', () => {
  let all: Awaited<ReturnType<typeof declared>>;
  beforeAll(async () => {
    // another test makes trial packages meanwhile
    all = await declared((folder) => !onTrial(folder));
  });

  test.each(readmes().filter((file) => !onTrial(file)))(
    '%s says what the packages declare; if not, run `npm run readmes`',
    (file) => {
      expect(readFileSync(join(root, file), 'utf8')).toBe(refreshed(file, all));
    },
  );

  test('every package with pieces has one, with every option of every piece', () => {
    for (const { folder, manifest } of piecePackages().filter(({ folder: at }) => !onTrial(at))) {
      const text = readFileSync(join(root, folder, 'README.md'), 'utf8');
      const [, block = ''] = /<!-- begin pieces .*-->\n([^]*)<!-- end pieces -->/.exec(text) ?? [];
      for (const { description } of Object.values<any>(all[manifest.name]).filter(all['@kv/core'].isFactory))
        for (const name of [
          `**\`${description.name}\`**`,
          ...Object.keys(description.options).map((key) => `\`${key}\``),
        ])
          expect(block, folder).toContain(`| ${name} |`);
    }
  });

  const file = join(root, 'node_modules/.cache/stale.md');
  beforeAll(() => void mkdirSync(join(root, 'node_modules/.cache'), { recursive: true }));
  const stale = (text: string): string => {
    writeFileSync(file, text);
    return refreshed(relative(root, file), all);
  };
  afterAll(() => rmSync(file, { force: true }));

  test('another default, a lost row and a row too many are all put right', () => {
    const text = readFileSync(join(root, 'packages/policies/README.md'), 'utf8');
    for (const wrong of [text.replace('window = 64', 'window = 65'), text.replace(/^\| `quest.*\n/m, '')]) {
      expect(wrong).not.toBe(text);
      expect(stale(wrong)).toBe(text);
    }
    expect(stale(text.replace('<!-- end methods -->', '| more |\n<!-- end methods -->'))).toBe(text);
  });

  test('a block without an end, and one that nothing writes, are one sentence', () => {
    expect(() => stale('<!-- begin methods (x) -->\n')).toThrow(
      /stale\.md begins 1 blocks: expected as many ends, got 0$/,
    );
    expect(() => stale('<!-- begin shapes (x) -->\n<!-- end shapes -->\n')).toThrow(
      /stale\.md has the block 'shapes': expected one of pieces, methods, recommended, scorers, packages, growth, options-load, .*$/,
    );
  });
});
