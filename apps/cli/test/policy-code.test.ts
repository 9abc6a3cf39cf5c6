import { appendFileSync, cpSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { PackageManifest } from '../src/policy/installed.ts';
import { packageDigest } from '../src/policy/package-code.ts';
import { policyCode as codeOn } from '../src/policy/policy-code.ts';
import { folder } from './terminal.ts';

const policyCode = (texts: readonly string[], cwd: string): Promise<readonly string[]> => codeOn(texts, cwd, 'f32');

const PIECE = `{ protocol: 1, from: ['start'], to: 'scores', name: 'mine', label: 'mine', atoms: [] }`;

/** A folder with a module, what it imports and reads, and what it does not. */
function workplace(version = '1.0.0'): string {
  const cwd = folder();
  const pack = join(cwd, 'node_modules/@acme/lib');
  mkdirSync(join(cwd, 'parts'));
  mkdirSync(pack, { recursive: true });
  writeFileSync(join(pack, 'package.json'), JSON.stringify({ name: '@acme/lib', version, exports: './index.js' }));
  writeFileSync(join(pack, 'index.js'), 'module.exports = {};');
  writeFileSync(
    join(cwd, 'mine.mjs'),
    `import { piece } from './parts/piece.mjs';\nimport {} from '@acme/lib/deep';\nexport const policy = piece;`.replace(
      '/deep',
      '',
    ),
  );
  writeFileSync(
    join(cwd, 'parts/piece.mjs'),
    `import { createRequire } from 'node:module';\ncreateRequire(import.meta.url)('./old.cjs');\nexport const table = new URL('../table.json', import.meta.url);\nexport const piece = ${PIECE};\n// '../parts' and './gone.mjs' are no files\n`,
  );
  writeFileSync(join(cwd, 'parts/old.cjs'), "require('./piece.mjs'.slice(99) || './old.cjs');");
  writeFileSync(join(cwd, 'table.json'), '[1]');
  writeFileSync(join(cwd, 'other.mjs'), '');
  return cwd;
}

it.each(['mine.mjs', 'parts/piece.mjs', 'parts/old.cjs', 'table.json'])(
  'a module is another one once %s is edited',
  async (file) => {
    const cwd = workplace();
    const before = await policyCode(['full', './mine.mjs'], cwd);
    expect(before.join()).toMatch(/^\.\/mine\.mjs [0-9a-f]{16},.*,@kv\/core@[\d.]+\+[0-9a-f]{16},/);
    appendFileSync(join(cwd, 'other.mjs'), ' ');
    expect(await policyCode(['./mine.mjs', 'full'], cwd)).toEqual(before);
    appendFileSync(join(cwd, file), ' ');
    const after = await policyCode(['full', './mine.mjs'], cwd);
    expect(after).toHaveLength(before.length);
    expect(after.filter((one) => !before.includes(one))).toHaveLength(1);
  },
);

it('a module is the same in another folder, and another one with another version of what it imports', async () => {
  const [a, b, c] = await Promise.all(
    ['1.0.0', '1.0.0', '1.0.1'].map((version) => policyCode(['./mine.mjs'], workplace(version))),
  );
  expect(b).toEqual(a);
  expect(c).not.toEqual(a);
});

it('pieces go by the versions of their packages, whether the text or the method names them', async () => {
  const versions: string[] = [];
  for (const version of ['1.2.3', '1.2.4']) {
    const cwd = folder();
    const pack = join(cwd, 'node_modules/@acme/pieces');
    mkdirSync(pack, { recursive: true });
    const manifest = { name: '@acme/pieces', version, type: 'module', kv: { pieces: true }, exports: './index.js' };
    writeFileSync(join(pack, 'package.json'), JSON.stringify(manifest));
    writeFileSync(
      join(pack, 'index.js'),
      `export const mine = Object.assign(() => (${PIECE}), { description: { protocol: 1, name: 'mine', kind: 'scorer', source: '', says: '', takes: 'nothing', options: {}, signals: [] } });`,
    );
    const code = await policyCode(['sum(mine,knorm) ∘ topK', 'snapkv'], cwd);
    versions.push(...code.filter((one) => one.startsWith('@acme')));
    for (const from of ['@kv/scorers-knorm', '@kv/scorers-attention', '@kv/selectors-top-k'])
      expect(code.join(' ')).toMatch(new RegExp(`${from}@\\d`));
  }
  expect(versions).toEqual([
    expect.stringMatching(/^@acme\/pieces@1\.2\.3\+[0-9a-f]{16}$/),
    expect.stringMatching(/^@acme\/pieces@1\.2\.4\+[0-9a-f]{16}$/),
  ]);
});

it('results are told apart by the code that runs and judges every policy, and by no piece that none names', async () => {
  const code = (await policyCode(['full'], folder())).join('\n');
  for (const name of ['checkpoints', 'core', 'engine', 'engine-wasm', 'evaluation', 'models', 'policies', 'tasks'])
    expect(code).toMatch(new RegExp(`^@kv/${name}@[\\d.]+\\+[0-9a-f]{16}$`, 'm'));
  expect(code).toMatch(/^@huggingface\/tokenizers@[\d.]+$/m);
  expect(code).not.toContain('@kv/scorers-knorm');
});

const KNORM = fileURLToPath(new URL('../../../packages/scorers/knorm', import.meta.url));

it.each([
  ['a source', 'src/knorm.ts', true],
  ['a new source', 'src/deep/more.ts', true],
  ['a build that is not run', 'dist/index.js', false],
  ['its README', 'README.md', false],
  ['its tests', 'test/knorm.test.ts', false],
])('a package that runs from source is another one once %s is edited: %s, %s', (_, file, another) => {
  const copy = join(folder(), 'knorm'),
    path = join(copy, file),
    manifest = JSON.parse(readFileSync(join(KNORM, 'package.json'), 'utf8')) as PackageManifest;
  cpSync(KNORM, copy, { recursive: true, filter: (source) => !/node_modules|dist$/.test(source) });
  const before = packageDigest(copy, manifest);
  expect(before).toBe(packageDigest(KNORM, manifest));
  utimesSync(join(copy, 'src/knorm.ts'), 1, 1);
  expect(packageDigest(copy, manifest), 'only touched').toBe(before);
  mkdirSync(dirname(path), { recursive: true });
  appendFileSync(path, ' ');
  expect(packageDigest(copy, manifest) !== before).toBe(another);
});

it('a built package is another one once what it loads is edited, and the same once its sources are', () => {
  const pack = folder(),
    manifest = { name: 'p', exports: './dist/index.js', files: ['dist', 'src', './data/**'] };
  for (const file of ['dist/index.js', 'dist/index.js.map', 'dist/index.d.ts', 'src/index.ts', 'data/a.json', 'b.js']) {
    mkdirSync(dirname(join(pack, file)), { recursive: true });
    writeFileSync(join(pack, file), '1');
  }
  const edited = (file: string): boolean => {
    const before = packageDigest(pack, manifest);
    appendFileSync(join(pack, file), '2');
    return packageDigest(pack, manifest) !== before;
  };
  expect(['dist/index.js', 'data/a.json'].map(edited)).toEqual([true, true]);
  expect(['dist/index.js.map', 'dist/index.d.ts', 'src/index.ts', 'b.js'].map(edited)).toEqual(Array(4).fill(false));
});
