import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { transformSync } from 'esbuild';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { runServer } from 'verdaccio';
import { root } from '../lib/process.mjs';

const exec = promisify(execFile);
const folder = mkdtempSync(join(tmpdir(), 'kv-registry-'));
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name))),
  npm_config_cache: join(folder, 'cache'),
};
let server: Server;

/** A registry on the loopback that knows nothing but what is published to it. */
beforeAll(async () => {
  server = await runServer({
    self_path: folder,
    storage: join(folder, 'storage'),
    uplinks: {},
    packages: { '**': { access: '$all', publish: '$all' } },
    log: { type: 'stdout', format: 'pretty', level: 'fatal' },
  } as never);
  await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  writeFileSync(join(folder, '.npmrc'), `registry=http://127.0.0.1:${port}/\n//127.0.0.1:${port}/:_authToken=anyone\n`);
  writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n');
});

afterAll(async () => {
  await new Promise((closed) => server.close(closed));
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
