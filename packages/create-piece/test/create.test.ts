import { cpSync, mkdtempSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const bin = join(import.meta.dirname, '../src/bin.mjs');
const folder = mkdtempSync(join(tmpdir(), 'kv-create-'));
const run = (...args: string[]): { status: number | null; stdout: string; stderr: string } =>
  spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: 'utf8' });

test.each([
  [[], /^create-piece: expected one NAME, got 0; --help says more\n$/],
  [['a', 'b'], /^create-piece: expected one NAME, got 2;/],
  [
    ['MyPiece'],
    /^create-piece: the name must be lower-case words joined by '-', after a scope or not, at most 100 characters, got "MyPiece"\n$/,
  ],
  [['../x'], /^create-piece: the name must be /],
  [
    ['x', '--kind', 'decoder'],
    /^create-piece: --kind must be one of allocators, demotions, folds, policies, refits, scorers, .*, got "decoder"\n$/,
  ],
  [['x'], /^create-piece: @kv\/core must have a version, which only the published package knows: /],
  [['x', '--knd', 'y'], /^create-piece: Unknown option '--knd'/],
])('%j is one sentence, and nothing is written', (args, sentence) => {
  const { status, stdout, stderr } = run(...args);
  expect([status, stdout, stderr.split('\n').length]).toEqual([2, '', 2]);
  expect(stderr).toMatch(sentence);
  expect(readdirSync(folder)).toEqual([]);
});

test('help has examples', () =>
  expect(run('--help')).toMatchObject({
    status: 0,
    stdout: expect.stringContaining('$ npm create @kv/piece kv-mine') as string,
  }));

const NAMES: Readonly<Record<string, readonly string[]>> = {
  ...{ demotions: ['coarse', 'best'], folds: ['key', 'value', 'count', 'read'], refits: ['capped'] },
  ...{ scorers: ['sizes', 'got', 'caches'], selectors: ['scores', 'budget'], units: ['row', 'whole-units'] },
  ...{ allocators: ['plan', 'apportion'], transforms: ['scored', 'ops'], policies: ['lengths', 'compose'] },
};
test('a name that the code of a kind has is refused, and no other', async () => {
  const { createOutside } = await import('../src/create.mjs');
  const refusal = (name: string, kind: string): string => {
    try {
      return createOutside(folder, name, kind);
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const [kind, names] of Object.entries(NAMES)) {
    for (const name of names)
      expect(refusal(`kv-${name}`, kind), `${kind} ${name}`).toContain('is a word of JavaScript or of the code');
    // words of comments and texts, and of properties
    for (const free of ['mine', 'authors', 'slice', 'all-held', 'float64'])
      expect(refusal(`kv-${free}`, kind), `${kind} ${free}`).toContain('must have a version');
  }
});

test('every template fills every word, and its manifest is one that kv finds', async () => {
  // as pnpm publishes it: with versions in the place of what only the workspace knows
  const published = join(folder, 'published');
  for (const part of ['package.json', 'src', 'templates'])
    cpSync(join(import.meta.dirname, '..', part), join(published, part), { recursive: true });
  const manifest = JSON.parse(readFileSync(join(published, 'package.json'), 'utf8')) as { devDependencies: object };
  for (const name of Object.keys(manifest.devDependencies))
    Object.assign(manifest.devDependencies, { [name]: '1.2.3' });
  writeFileSync(join(published, 'package.json'), JSON.stringify(manifest));
  const { createOutside, kinds } = (await import(join(published, 'src/create.mjs'))) as {
    createOutside(cwd: string, name: string, kind: string): string;
    kinds: readonly string[];
  };
  expect(kinds).toEqual([
    'allocators',
    'demotions',
    'folds',
    'policies',
    'refits',
    'scorers',
    'selectors',
    'transforms',
    'units',
  ]);
  for (const kind of kinds) {
    const at = join(folder, createOutside(folder, `@me/kv-my-${kind}`, kind));
    const files = readdirSync(at, { recursive: true, encoding: 'utf8' }).filter((name) =>
      statSync(join(at, name)).isFile(),
    );
    for (const file of files)
      expect(file + readFileSync(join(at, file), 'utf8'), file).not.toMatch(/__[a-z]+(:[^_]+)?__|workspace:|catalog:/);
    expect(files).toEqual(
      expect.arrayContaining(['.gitignore', 'CHANGELOG.md', 'LICENSE', 'README.md', 'tsconfig.json']),
    );
    const { name, kv, keywords, devDependencies } = JSON.parse(
      readFileSync(join(at, 'package.json'), 'utf8'),
    ) as Record<string, unknown>;
    expect([name, kv, keywords]).toEqual([`@me/kv-my-${kind}`, { pieces: true }, ['kv-piece', 'kv-cache']]);
    expect(readFileSync(join(at, 'README.md'), 'utf8')).not.toContain('npm run readmes');
    expect(devDependencies).toMatchObject({ '@kv/laws': '^1.2.3', vitest: '^1.2.3' });
    expect(() => createOutside(folder, `kv-my-${kind}`, kind)).toThrow(`kv-my-${kind} must be free, but it exists`);
  }
});
