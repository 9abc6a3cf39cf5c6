import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

test('a run of tests leaves no temporary file behind', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kv-temporary-')),
    file = 'packages/hub/test/cached-models.test.ts'; // it makes a folder and does not remove it
  execFileSync(process.execPath, ['node_modules/vitest/vitest.mjs', 'run', '--project', 'unit', file], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    env: { ...process.env, TMPDIR: folder, TEMP: folder, TMP: folder },
    stdio: 'ignore',
  });
  expect(readdirSync(folder)).toEqual([]);
});
