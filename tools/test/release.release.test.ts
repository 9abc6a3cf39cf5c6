import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { manifest as manifestOf, onTrial, published } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';
import { startRegistry } from '../lib/registry.mjs';
import { dirty, signs, unbuilt, webAddress } from '../lib/release.mjs';

/**
 * Variables that a tested `npm run release` must not inherit from the release that runs the test: its right to sign.
 */
const unsigned = { ACTIONS_ID_TOKEN_REQUEST_URL: '', KV_REPOSITORY: 'git+https://host/kv.git' };
const folder = mkdtempSync(join(tmpdir(), 'kv-release-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('a release', () => {
  const clone = join(folder, 'clone'),
    git = (...args: readonly string[]): void => void execFileSync('git', ['-C', clone, ...args]),
    release = (...args: readonly string[]): readonly [number | null, string, string] => {
      const { status, stdout, stderr } = spawnSync(process.execPath, ['tools/release.mjs', ...args], {
        cwd: clone,
        encoding: 'utf8',
        env: { ...process.env, ...unsigned, NPM_CONFIG_USERCONFIG: join(folder, 'npmrc') },
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
  test('is rehearsed with no other argument', () => {
    expect(release('--rehearse', '--dry-run')).toEqual([
      2,
      '',
      'release: expected no other argument with --rehearse, got --dry-run\n',
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
    const built = published().filter(({ folder: from }) => !onTrial(from));
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
  });
  test('of a clean clone is not', () => expect(dirty('')).toBeUndefined());
});

/**
 * A clone with two packages, the second of which depends on the first, and with checks of its own; the rest is as here.
 */
describe('a release to its end', () => {
  const clone = join(folder, 'small'),
    packages = ['@kv/release-a', '@kv/release-b'],
    git = (...args: readonly string[]): string =>
      execFileSync('git', ['-C', clone, ...args], { encoding: 'utf8' }).trim();
  let registry: Awaited<ReturnType<typeof startRegistry>>, env: NodeJS.ProcessEnv, before: string;
  const write = (path: string, content: unknown): void => {
    mkdirSync(dirname(join(clone, path)), { recursive: true });
    writeFileSync(join(clone, path), typeof content === 'string' ? content : JSON.stringify(content));
  };
  /** `checks`: their outcome; `refused`: whether the second package is refused. */
  function release(
    options: { readonly checks?: 'fail' | 'wait'; readonly refused?: boolean } = {},
    meanwhile?: (child: ChildProcess, said: string) => void,
  ): Promise<readonly [number | null, string]> {
    const child = spawn(process.execPath, ['tools/release.mjs'], {
      cwd: clone,
      env: { ...env, CHECKS: options.checks, REFUSED: options.refused ? 'yes' : '' },
    });
    let said = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data: Buffer) => {
        said += data.toString();
        meanwhile?.(child, said);
      });
    return new Promise((done) => child.on('close', (code) => done([code, said])));
  }
  const stopped = (signal: NodeJS.Signals): ReturnType<typeof release> =>
    release({ checks: 'wait' }, (child, said) => {
      if (said.endsWith('release: checks\n')) child.kill(signal);
    });
  const versions = async (): Promise<readonly unknown[]> =>
    Promise.all(
      packages.map(async (name) => {
        const answer = await fetch(`${registry.address}/${name.replace('/', '%2f')}`);
        return answer.ok ? Object.keys(((await answer.json()) as { versions: object }).versions) : [];
      }),
    );

  beforeAll(async () => {
    registry = await startRegistry(join(folder, 'registry'), { others: true });
    const { npm_config_cache: _, ...own } = registry.env,
      settings = join(folder, 'settings');
    writeFileSync(settings, registry.settings);
    env = {
      ...own,
      ...unsigned,
      NPM_CONFIG_USERCONFIG: settings,
      PATH: [join(root, 'node_modules/.bin'), join(root, 'tools/node_modules/.bin'), process.env.PATH].join(delimiter),
    };
    for (const path of ['tools/release.mjs', 'tools/publish.mjs', 'tools/lib', '.changeset/config.json', 'turbo.json'])
      cpSync(join(root, path), join(clone, path), { recursive: true });
    const { packageManager } = manifestOf(root);
    write('package.json', { name: 'small', private: true, packageManager });
    write('pnpm-workspace.yaml', 'packages: [packages/*]\n');
    write('.gitignore', 'node_modules\n.turbo\n');
    write(
      'tools/check.mjs',
      "if (process.env.CHECKS) setTimeout(() => process.exit(1), process.env.CHECKS === 'wait' ? 20_000 : 0);\n",
    );
    for (const [i, name] of packages.entries()) {
      const more = i === 0 ? {} : { dependencies: { [packages[0]]: 'workspace:^' } },
        scripts = { prepublishOnly: i === 0 ? 'true' : 'test -z "$REFUSED"' };
      write(`packages/${i}/package.json`, { name, version: '0.0.0', exports: './index.js', scripts, ...more });
      write(`packages/${i}/index.js`, '');
      write(`.changeset/${i}.md`, `---\n"${name}": minor\n---\n\nIt is new.\n`);
    }
    await promisify(execFile)('npx', ['-y', packageManager, 'install', '--lockfile-only'], { cwd: clone, env });
    git('init', '--quiet', '--initial-branch=main');
    git('config', 'user.name', 'a');
    git('config', 'user.email', 'a@b.c');
    git('add', '-A');
    git('commit', '--quiet', '-m', 'As it is');
    before = git('rev-parse', 'HEAD');
  });
  afterAll(() => registry.stop());

  test('leaves the clone as it was where checks fail, or where it is stopped', async () => {
    const as = 'nothing was published, and the clone is as it was\n',
      ends = [await release({ checks: 'fail' }), await stopped('SIGTERM'), await stopped('SIGINT')];
    expect(ends.map(([code, said]) => [code, said.trim().split('\n').at(-1)])).toEqual([
      [1, expect.stringMatching(`^release: '.* tools/check.mjs' failed: ${as.trim()}$`)],
      [1, `release: stopped: ${as.trim()}`],
      [1, `release: stopped: ${as.trim()}`],
    ]);
    expect([git('rev-parse', 'HEAD'), git('status', '--porcelain'), git('tag')]).toEqual([before, '', '']);
    expect(await versions()).toEqual([[], []]);
  });
  test('goes on with the same command after it was killed, and after a package was refused', async () => {
    expect(await stopped('SIGKILL')).toEqual([null, expect.stringContaining('release: checks')]);
    expect(git('status', '--porcelain')).toBe('');
    const [code, said] = await release({ refused: true });
    expect([code, said.trim().split('\n').at(-1)]).toEqual([
      1,
      expect.stringMatching(/^release: 'pnpm -r publish .*' failed: 'npm run release' again goes on: it publishes/),
    ]);
    expect([await versions(), git('tag')]).toEqual([[['0.1.0'], []], '']);
    const [again, told] = await release();
    expect([again, told]).toEqual([
      0,
      expect.stringMatching(
        /^\+ @kv\/release-b@0.1.0\nNew tag: +@kv\/release-a@0.1.0\nNew tag: +@kv\/release-b@0.1.0$/m,
      ),
    ]);
    expect([git('status', '--porcelain'), git('tag').split('\n')]).toEqual([
      '',
      packages.map((name) => `${name}@0.1.0`),
    ]);
    expect(git('log', '--format=%s')).toBe('Release\nAs it is');
  });
  test('packs without a right to publish, and what was packed is published elsewhere with no other code', async () => {
    write('packages/1/index.js', '// changed\n');
    write('.changeset/more.md', `---\n"${packages[1]}": minor\n---\n\nIt changed.\n`);
    git('add', '-A');
    git('commit', '--quiet', '-m', 'More');
    const tarballs = join(folder, 'tarballs');
    mkdirSync(tarballs);
    writeFileSync(join(folder, 'nobody'), `registry=${registry.address}/\n`);
    const packing = { ...env, CHECKS: '', NPM_CONFIG_USERCONFIG: join(folder, 'nobody') };
    await promisify(execFile)(process.execPath, ['tools/release.mjs', '--pack', tarballs], {
      cwd: clone,
      env: packing,
    });
    expect(await versions()).toEqual([['0.1.0'], ['0.1.0']]);
    expect([git('log', '-1', '--format=%s'), git('status', '--porcelain')]).toEqual(['Release', '']);
    const publishing = { ...env, REFUSED: 'yes' }, // a script of the package would fail
      publish = promisify(execFile)(process.execPath, ['tools/publish.mjs', tarballs], { cwd: clone, env: publishing });
    expect((await publish).stdout).toBe('+ @kv/release-b@0.2.0\npublish: the registry has all of 2 packages\n');
    expect([await versions(), git('tag', '--points-at', 'HEAD')]).toEqual([
      [['0.1.0'], ['0.1.0', '0.2.0']],
      '@kv/release-b@0.2.0',
    ]);
  });
  test('is what a user installs, and once more there is nothing to release', async () => {
    expect(await versions()).toEqual([['0.1.0'], ['0.1.0', '0.2.0']]);
    expect(await release()).toEqual([
      0,
      expect.stringMatching(
        /^release: there is nothing to release: no changeset waits, and the registry has every package$/m,
      ),
    ]);
    const user = join(folder, 'user');
    mkdirSync(user);
    await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '@kv/release-b'], { cwd: user, env });
    expect(manifestOf(join(user, 'node_modules/@kv/release-a')).version).toBe('0.1.0');
  });
});
