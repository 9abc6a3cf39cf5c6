import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { manifest, onTrial, packageFolders, piecePackages } from './manifests.mjs';
import { fail, root, run } from './process.mjs';

/** Dependencies that packages need to run, without bundled ones and those of tests (WebGPU has 132 MB). */
const running = (...names) => names.flatMap((name) => ['--filter-prod', `${name}...`]);
const pieces = () => running('@kv/cli', ...piecePackages().map(({ manifest: { name } }) => name));

/**
 * What each command needs: an app with everything it imports, all pieces and the root's build tools; for the unit tests
 * what they import (ONNX Runtime belongs to bench), without the tools; or all.
 */
const scopes = {
  cli: () => ['--filter', '.', ...pieces()],
  gpu: () => ['--filter', '.', '--filter', '@kv/engine-webgpu...', ...pieces()],
  queue: () => ['--filter', '.', '--filter', '@kv/queue...', ...pieces()],
  stores: () => ['--filter', '.', '--filter', '@kv/stores...', ...pieces()],
  studies: () => ['--filter', '.', ...running('@kv/studies'), ...pieces()],
  playground: () => ['--filter', '.', '--filter', '@kv/playground...', ...pieces()],
  unit: () =>
    ['.', './packages/**', './apps/*', '!./apps/docs', './bench', './studies/**'].flatMap((one) => ['--filter', one]),
  all: () => [],
};

const stamp = join(root, 'node_modules/.kv-install.json');

/**
 * Installs what `scope` needs with the pinned pnpm, or returns at once if that was done for these manifests.
 * @param {keyof typeof scopes} scope
 */
export async function install(scope) {
  const key = fingerprint();
  const before = stamped(),
    done = before.key === key ? before.scopes : [];
  if (done.includes(scope) || done.includes('all')) return;
  rmSync(stamp, { force: true });
  const pnpm = manifest(root).packageManager;
  console.error(
    `Installing what ${{ all: 'all tests need', unit: 'the unit tests need', cli: 'kv needs', gpu: 'kv needs for --device webgpu', queue: 'kv needs for --queue', stores: 'kv needs for --conversations', studies: 'the studies need', playground: 'the playground needs' }[scope]} (once for this Node and these packages) with ${pnpm} ...`,
  );
  const { code, output } = await run('npx', [
    '-y',
    pnpm,
    'install',
    '--frozen-lockfile',
    '--prefer-offline',
    '--reporter=append-only',
    ...scopes[scope](),
  ]);
  if (code !== 0)
    fail(
      `${output}The packages could not be installed: see above; where a manifest changed, run 'npx -y ${pnpm} install' first.`,
      code,
    );
  writeFileSync(stamp, JSON.stringify({ scopes: [...done, scope], key }));
}

function stamped() {
  try {
    const { key, scopes = [] } = JSON.parse(readFileSync(stamp, 'utf8'));
    return { key, scopes };
  } catch {
    return { scopes: [] };
  }
}

/** A key that changes with the lock file, any manifest, the Node version and the platform. */
function fingerprint() {
  const hash = createHash('sha256').update(`${process.version} ${process.platform} ${process.arch}`);
  for (const file of [
    'pnpm-lock.yaml',
    'pnpm-workspace.yaml',
    ...packageFolders()
      .filter((folder) => !onTrial(folder))
      .map((folder) => join(relative(root, folder), 'package.json')),
  ])
    hash.update(`\0${file}\0`).update(readFileSync(join(root, file)));
  return hash.digest('hex');
}
