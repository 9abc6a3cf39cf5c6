import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { onTrial } from '../lib/manifests.mjs';
import { root } from '../lib/process.mjs';

const folder = mkdtempSync(join(tmpdir(), 'kv-start-'));
afterAll(() => rmSync(folder, { recursive: true }));

test('npm start installs, builds and runs the experiment where nothing else was installed', {
  timeout: 900_000,
}, () => {
  const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  // a removed file is still in the index
  for (const file of files.split('\0').filter(Boolean))
    if (!onTrial(file)) cpSync(join(root, file), join(folder, file), { force: false, errorOnExist: false });
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^(KV_|VITEST|NODE_(ENV|OPTIONS|PATH)$|INIT_CWD$|npm_(?!config_))/.test(name),
    ),
  );
  const { status, stdout, stderr } = spawnSync(
    'npm',
    ['start', '--', '--prompts', '1', '--tokens', '96', '--policies', 'streaming', '--modes', 'aware'],
    { cwd: folder, env, encoding: 'utf8' },
  );
  expect(status, stdout + stderr).toBe(0);
  expect(stdout).toMatch(/^streaming +12\.5%/m);
});
