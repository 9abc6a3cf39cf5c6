import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { policyCode } from '../src/policy/policy-code.ts';
import { folder } from './terminal.ts';

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
    expect(before.join()).toMatch(/^\.\/mine\.mjs [0-9a-f]{16},@kv\/[\w-]+@\d+\.\d+\.\d+/);
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
  expect(versions).toEqual(['@acme/pieces@1.2.3', '@acme/pieces@1.2.4']);
});
