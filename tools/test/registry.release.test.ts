import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { promisify } from 'node:util';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { inTurn } from '../../packages/model-testing/src/in-turn.ts';
import { packageFolders } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';
import { startRegistry } from '../lib/registry.mjs';

const exec = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'kv-registry-'));
let registry: Awaited<ReturnType<typeof startRegistry>>, env: NodeJS.ProcessEnv;

/** Makes a user's project, empty except for its registry setting. */
function project(): string {
  const at = mkdtempSync(join(folder, 'project-'));
  registry.use(at);
  writeFileSync(join(at, 'package.json'), '{ "name": "user", "private": true, "type": "module" }\n');
  return at;
}
const binary = (name: string): string => join(root, name === 'yarn' ? 'tools' : '.', 'node_modules/.bin', name);
const installs: Readonly<Record<string, readonly string[]>> = {
  npm: ['npm', 'install', '--no-audit', '--no-fund'],
  pnpm: [binary('pnpm'), 'add', '--store-dir', join(folder, 'store')],
  yarn: [binary('yarn'), 'add', '--no-progress'],
};
const install = async (at: string, manager: string, ...packages: readonly string[]): Promise<void> => {
  const [command, ...args] = installs[manager];
  await exec(command, [...args, ...packages], { cwd: at, env });
};
/** Runs a program in a project and returns its last line. */
async function run(at: string, program: string): Promise<string> {
  writeFileSync(join(at, 'program.js'), program);
  const { stdout } = await exec(process.execPath, ['program.js'], { cwd: at, env });
  return stdout.trim().split('\n').at(-1) ?? '';
}

interface Manifest {
  version: string;
  dependencies?: Record<string, string>;
}
/**
 * Publishes what was packed of a package as `version`, with `core` as its range of cores and files changed by `edit`.
 */
async function publish(
  name: string,
  version: string,
  { core, edit }: { readonly core?: string; readonly edit?: (file: (path: string) => string) => void } = {},
): Promise<void> {
  const { tarball } = inject('packed').find((candidate) => candidate.name === name) ?? expect.fail(`no ${name}`);
  const at = mkdtempSync(join(folder, 'publish-')),
    file = (path: string): string => join(at, 'package', path);
  await exec('tar', ['xzf', tarball, '-C', at]);
  const manifest = JSON.parse(readFileSync(file('package.json'), 'utf8')) as Manifest;
  writeFileSync(
    file('package.json'),
    JSON.stringify({ ...manifest, version, ...(core && { dependencies: { '@kv/core': core } }) }),
  );
  edit?.(file);
  registry.use(join(at, 'package'));
  await exec('npm', ['publish', '--tag', `of-${version.replaceAll('.', '-')}`], { cwd: join(at, 'package'), env });
}
/** A core whose pieces speak protocol 2. */
function otherProtocol(file: (path: string) => string): void {
  const text = readFileSync(file('dist/piece/piece.js'), 'utf8'),
    edited = text.replace('PROTOCOL = 1;', 'PROTOCOL = 2;');
  if (edited === text) throw new Error('dist/piece/piece.js of @kv/core has no PROTOCOL = 1');
  writeFileSync(file('dist/piece/piece.js'), edited);
}

/** A registry on the loopback interface, with only what is published to it. */
beforeAll(async () => {
  registry = await startRegistry(folder);
  env = { ...registry.env, YARN_CACHE_FOLDER: join(folder, 'yarn-cache') };
  await publish('@kv/core', '1.0.0');
  await publish('@kv/core', '1.1.0');
  await publish('@kv/core', '2.0.0', { edit: otherProtocol });
  await publish('@kv/cpu', '1.0.0', { core: '^1.0.0' });
  await publish('@kv/cpu', '2.0.0', { core: '^2.0.0' });
  await publish('@kv/scorers-caote', '1.0.0', { core: '^1.0.0' });
  await publish('@kv/selectors-top-k', '1.0.0', { core: '^1.0.0' });
  await publish('@kv/selectors-top-k', '1.1.0', { core: '^1.1.0' });
  await publish('@kv/selectors-top-k', '2.0.0', { core: '^2.0.0' });
});

afterAll(async () => {
  await registry.stop();
  rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
});

/** Returns where each version of core is in a project that npm installed. */
function cores(at: string): Record<string, string> {
  const { packages } = JSON.parse(readFileSync(join(at, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, Manifest>;
  };
  return Object.fromEntries(
    Object.entries(packages)
      .filter(([path]) => path.endsWith('/@kv/core'))
      .map(([path, { version }]) => [path, version]),
  );
}
const policy = `
import { compose } from '@kv/core';
import { apply } from '@kv/cpu';
import { caote } from '@kv/scorers-caote';
import { topK } from '@kv/selectors-top-k';
const inputs = { scores: [[0.5, 0.25, 0.25]], values: { data: Float32Array.of(0, 0, 27, 36, 9, 12), shape: [1, 3, 2] }, budget: 2 };
try {
  console.log(JSON.stringify(apply(compose(caote(), topK()), inputs).kept));
} catch (error) {
  console.log(error.message);
}
`;

describe.each(['npm', ...inTurn(['pnpm', 'yarn'], 2)])('%s', (manager) => {
  test('who installs one piece gets core with it, and its README runs', async () => {
    const at = project();
    await install(at, manager, '@kv/scorers-caote@1.0.0');
    const piece = `import { caote } from '@kv/scorers-caote'; console.log(caote().label);`;
    expect(await run(at, piece)).toBe('caote');

    // what its README says to install, since pnpm gives a program only its direct dependencies
    await install(at, manager, '@kv/core@1.0.0', '@kv/cpu@1.0.0');
    const readme = readFileSync(join(root, 'packages/scorers/caote/README.md'), 'utf8');
    const example = /^```(?:ts|js)\n(.*?)^```/ms.exec(readme)?.[1] ?? expect.fail('no ts or js block');
    writeFileSync(join(at, 'example.ts'), example);
    await exec(
      join(root, 'node_modules/.bin/tsc'),
      ['example.ts', '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2023,dom'],
      { cwd: at },
    );
    const { code } = transformSync(example, { loader: 'ts', format: 'esm' });
    expect(await run(at, code)).toBe(/^\/\/ => (.*)$/m.exec(example)?.[1]);
  });
});

describe('cores and pieces of other versions', () => {
  const kept = async (...packages: readonly string[]): Promise<readonly [string, Record<string, string>]> => {
    const at = project();
    await install(at, 'npm', ...packages);
    return [await run(at, policy), cores(at)];
  };
  const shared = 'node_modules/@kv/core',
    beside = (piece: string): string => `node_modules/@kv/${piece}/node_modules/@kv/core`;

  test('pieces built against a former minor share a newer core', async () => {
    expect(
      await kept('@kv/core@1.1.0', '@kv/cpu@1.0.0', '@kv/scorers-caote@1.0.0', '@kv/selectors-top-k@1.0.0'),
    ).toEqual(['[[0,1]]', { [shared]: '1.1.0' }]);
  });

  test('a piece that wants a newer minor brings it, and runs beside an older core and an older piece', async () => {
    expect(
      await kept('@kv/core@1.0.0', '@kv/cpu@1.0.0', '@kv/scorers-caote@1.0.0', '@kv/selectors-top-k@1.1.0'),
    ).toEqual(['[[0,1]]', { [shared]: '1.0.0', [beside('selectors-top-k')]: '1.1.0' }]);
  });

  test('a core refuses pieces of another protocol and says which side to update', async () => {
    expect(
      (await kept('@kv/core@1.1.0', '@kv/cpu@1.0.0', '@kv/scorers-caote@1.0.0', '@kv/selectors-top-k@2.0.0'))[0],
    ).toBe("compose: 'topK' speaks protocol 2 of pieces and this @kv/core protocol 1: update @kv/core");
    expect(
      (await kept('@kv/core@2.0.0', '@kv/cpu@2.0.0', '@kv/scorers-caote@1.0.0', '@kv/selectors-top-k@2.0.0'))[0],
    ).toBe(
      "compose: 'caote' speaks protocol 1 of pieces and this @kv/core protocol 2: update the package that brings 'caote'",
    );
  });
});

test('from 1.0.0 on a minor of core releases core alone', async () => {
  const at = mkdtempSync(join(folder, 'plan-')),
    manifests = new Map<string, string>();
  for (const source of packageFolders().filter((path) => path !== root)) {
    const path = join(at, relative(root, source), 'package.json'),
      manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as Manifest & { name: string };
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, JSON.stringify({ ...manifest, version: '1.0.0' }));
    manifests.set(manifest.name, path);
  }
  for (const file of ['package.json', 'pnpm-workspace.yaml']) cpSync(join(root, file), join(at, file));
  mkdirSync(join(at, '.changeset'));
  const {
    changelog: _,
    $schema: __,
    ...config
  } = JSON.parse(readFileSync(join(root, '.changeset/config.json'), 'utf8'));
  writeFileSync(join(at, '.changeset/config.json'), JSON.stringify({ ...config, changelog: false }));
  writeFileSync(join(at, '.changeset/minor.md'), '---\n"@kv/core": minor\n---\n\nOne more operation.\n');
  await exec(join(root, 'tools/node_modules/.bin/changeset'), ['version'], { cwd: at, env });
  const released = [...manifests].flatMap(([name, path]) => {
    const { version } = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
    return version === '1.0.0' ? [] : [`${name} ${version}`];
  });
  expect(released).toEqual(['@kv/core 1.1.0']);
});
