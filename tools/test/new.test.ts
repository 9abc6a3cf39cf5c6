import { mkdirSync, rmSync, rmdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { violations } from '../boundaries.mjs';
import { manifest, published } from '../lib/manifests.mjs';
import { createPiece, families, familyFolder } from '../lib/piece.mjs';
import { root, run } from '../lib/process.mjs';
import { examples, runExample } from '../lib/readme.mjs';

/** Folds and refits lie among transforms, so each family has a name of its own. */
const nameOf = (family: string): string => `zz-trial-${family}`;
const folders = families.map((family: string) => join('packages', familyFolder(family), nameOf(family)));
const cleanUp = (): void => {
  for (const folder of folders) rmSync(join(root, folder), { recursive: true, force: true });
  for (const family of families)
    try {
      rmdirSync(join(root, 'packages', family));
    } catch {
      /* other pieces live there */
    }
};

/** Does what pnpm install does for a new package, without changing the lock file. */
function link(folder: string): void {
  const sources = new Map(published().map((one) => [one.manifest.name, one.folder]));
  mkdirSync(join(root, folder, 'node_modules/@kv'), { recursive: true });
  for (const dependency of Object.keys({
    ...manifest(join(root, folder)).dependencies,
    ...manifest(join(root, folder)).devDependencies,
  }))
    if (sources.has(dependency))
      symlinkSync(join(root, sources.get(dependency)!), join(root, folder, 'node_modules', dependency));
}

beforeAll(() => {
  cleanUp();
  for (const family of families) link(createPiece(family, nameOf(family)));
});
afterAll(cleanUp);

test('the tests of new pieces pass unchanged', async () => {
  const { code, output } = await run('vitest', ['run', '--project', 'unit', ...folders]);
  expect(code, output).toBe(0);
  expect(stripVTControlCharacters(output)).toMatch(new RegExp(`Test Files\\s+${folders.length} passed`));
});

test('new pieces have no type errors', async () => {
  const config = join(root, 'node_modules/.cache/new-pieces.tsconfig.json');
  mkdirSync(join(root, 'node_modules/.cache'), { recursive: true });
  writeFileSync(
    config,
    JSON.stringify({
      extends: join(root, 'tsconfig.base.json'),
      include: folders.map((folder: string) => join(root, folder)),
    }),
  );
  const { code, output } = await run('tsgo', ['-p', config]);
  expect(code, output).toBe(0);
});

test('new pieces build, and kv lists them', async () => {
  for (const folder of folders) {
    const { code, output } = await run('npm', ['--prefix', folder, 'run', '--silent', 'build']);
    expect(code, output).toBe(0);
  }
  const { output } = await run('node', ['apps/cli/dist/bin.js', 'pieces', '--json']);
  const listed = (JSON.parse(output) as readonly { readonly package: string }[]).map((entry) => entry.package);
  expect(listed.filter((from) => from.includes('-zz-trial-')).sort()).toEqual(
    families.map((family: string) => `@kv/${familyFolder(family)}-${nameOf(family)}@0.0.0`).sort(),
  );
});

test('a new scorer stands before what needs weights', async () => {
  const code = `
import { compose } from '@kv/core';
import { caote } from '@kv/scorers-caote';
import { zzTrialScorers } from '@kv/scorers-zz-trial-scorers';
import { topK } from '@kv/selectors-top-k';
console.log(String(compose(zzTrialScorers(), caote(), topK())));
`;
  expect(await runExample('packages/scorers/zz-trial-scorers', code)).toBe('zzTrialScorers ∘ caote ∘ topK\n');
});

test('the workspace with its new pieces keeps its direction: core <- pieces <- policies <- apps', async () => {
  expect(await violations(root)).toEqual([]);
});

describe.each(folders)('the README example of %s', (folder) => {
  test('prints what it says', async () => {
    const [code = ''] = examples(folder);
    expect(await runExample(folder, code)).toBe(`${/\/\/ => (.*)$/m.exec(code)?.[1]}\n`);
  });
});

test.each([
  [
    'an unknown family',
    'scorer',
    'a',
    /^the family must be one of allocators, demotions, folds, refits, scorers, selectors, transforms, units, got "scorer"$/,
  ],
  [
    'a name that is no package name',
    'scorers',
    'MyScorer',
    /^the name must be lower-case words joined by '-', got "MyScorer"$/,
  ],
  ['a word of JavaScript', 'scorers', 'class', /^the name must be one that code can give a piece, got "class", and /],
  ['a name that the template imports', 'scorers', 'values', /^the name must be one that .*, got "values", and /],
  ['a missing name', 'scorers', undefined, /^the name must be .*, got undefined$/],
  ['a name that is taken', 'scorers', 'attention', /^packages\/scorers\/attention must be free, but it exists$/],
  [
    'the name of another piece',
    'transforms',
    'top-k',
    /^the name must be of no other piece, but packages\/selectors\/top-k has 'topK'$/,
  ],
])('%s is one sentence', (_, family, piece, sentence) => {
  expect(() => createPiece(family, piece)).toThrow(sentence);
});
