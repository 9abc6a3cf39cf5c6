import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { root } from '../lib/process.mjs';
import { startRegistry } from './registry.ts';
import type { TestRegistry } from './registry.ts';

const exec = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'kv-registry-'));
let registry: TestRegistry, env: NodeJS.ProcessEnv;

beforeAll(async () => {
  registry = await startRegistry(folder);
  ({ env } = registry);
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
});

afterAll(async () => {
  await registry.stop();
  rmSync(folder, { recursive: true });
});

test('who installs only @kv/scorers-caote gets core with it and runs the README example', async () => {
  for (const name of ['@kv/core', '@kv/scorers-caote']) {
    const { tarball } = inject('packed').find((candidate) => candidate.name === name)!;
    await exec('npm', ['publish', tarball], { cwd: folder, env });
  }
  await exec('npm', ['install', '--no-audit', '--no-fund', '@kv/scorers-caote'], { cwd: folder, env });
  expect(Object.keys(JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8')).packages).sort()).toEqual([
    '',
    'node_modules/@kv/core',
    'node_modules/@kv/scorers-caote',
  ]);

  const readme = readFileSync(join(root, 'packages/scorers/caote/README.md'), 'utf8');
  const example =
    /^```(?:ts|js)\n(.*?)^```/ms.exec(readme)?.[1] ??
    expect.fail('packages/scorers/caote/README.md has no ts or js block');
  writeFileSync(join(folder, 'example.ts'), example);
  await exec(
    join(root, 'node_modules/.bin/tsc'),
    ['example.ts', '--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2023,dom'],
    { cwd: folder },
  );
  writeFileSync(join(folder, 'example.js'), transformSync(example, { loader: 'ts', format: 'esm' }).code);
  const { stdout } = await exec(process.execPath, ['example.js'], { cwd: folder, env });
  expect(stdout).toMatch(/\d/);
});
