import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { published } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';
import { dirty, signs, unbuilt, webAddress } from '../lib/release.mjs';

const folder = mkdtempSync(join(tmpdir(), 'kv-release-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('a release', () => {
  const clone = join(folder, 'clone'),
    git = (...args: readonly string[]): void => void execFileSync('git', ['-C', clone, ...args]),
    release = (...args: readonly string[]): readonly [number | null, string, string] => {
      const { status, stdout, stderr } = spawnSync(process.execPath, ['tools/release.mjs', ...args], {
        cwd: clone,
        encoding: 'utf8',
        env: { ...process.env, NPM_CONFIG_USERCONFIG: join(folder, 'npmrc'), KV_REPOSITORY: 'git+https://host/kv.git' },
      });
      return [status, stdout, stderr];
    };
  beforeAll(() => {
    execFileSync('git', ['clone', '--quiet', '--depth', '1', `file://${root}`, clone]);
    for (const file of ['release.mjs', 'lib/release.mjs', 'lib/manifests.mjs'])
      execFileSync('cp', [join(root, 'tools', file), join(clone, 'tools', file)]);
    git('add', '-A');
    git('-c', 'user.name=a', '-c', 'user.email=a@b.c', 'commit', '--quiet', '--allow-empty', '-m', 'As it is');
  });
  test('by somebody who is not logged in to the registry is refused, before anything is done', () => {
    expect(release()).toEqual([
      2,
      '',
      "release: nobody is logged in to the registry, so that nothing can be published: 'npm login' first, or add '-- --dry-run' for all but that\n",
    ]);
  });
  test('of a clone with a change or a new file is refused, before anything is done', () => {
    writeFileSync(join(clone, 'README.md'), 'changed');
    writeFileSync(join(clone, 'new.txt'), 'new');
    expect(release('--dry-run')).toEqual([
      2,
      '',
      "release: a release must come from a clean clone, but README.md is changed or not committed and 1 more: commit it, or put it aside with 'git stash --include-untracked'\n",
    ]);
  });
  test('of a package that was not built is refused', () => {
    // another test has pieces on trial
    const built = published().filter(({ folder: from }) => !from.endsWith('/zz-trial'));
    for (const { folder: from, manifest } of built) expect(unbuilt(join(root, from), manifest)).toEqual([]);
    const manifest = { name: 'a', exports: { '.': { '@kv/source': './src/a.ts', default: './dist/index.js' } } };
    expect(unbuilt(folder, manifest)).toEqual(['a must be built, but ./dist/index.js is not there']);
    expect(unbuilt(folder, { name: 'b', bin: { b: './dist/bin.js' } })).toEqual([
      'b must be built, but ./dist/bin.js is not there',
    ]);
  });
  test('says where the sources are, of a clone from a public place', () => {
    for (const remote of ['git@host.org:a/b.git', 'https://host.org/a/b', 'ssh://git@host.org/a/b.git\n'])
      expect(webAddress(remote)).toBe('git+https://host.org/a/b.git');
    for (const remote of ['/srv/b', 'file:///srv/b', 'host:b', '']) expect(webAddress(remote)).toBeUndefined();
  });
  test('is signed where CI can, and nowhere else', () => {
    expect([{ ACTIONS_ID_TOKEN_REQUEST_URL: 'u' }, {}].map(signs)).toEqual([true, false]);
    const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8');
    expect(workflow).toMatch(/^ {2}id-token: write$/m);
    expect(workflow).toMatch(/npm run release/);
  });
  test('of a clean clone is not', () => expect(dirty('')).toBeUndefined());
});
