/**
 * `node tools/publish.mjs FOLDER`: publishes the tarballs of `npm run release -- --pack FOLDER` that the registry does
 * not have yet, each after its dependencies, and tags the commit. It needs only node, npm, tar and git, and runs no
 * script of any package, so that no other code has the right to publish. Other arguments go to `npm publish`.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fail, root, showUsage } from './lib/process.mjs';
import { signs } from './lib/release.mjs';

showUsage(import.meta.filename);
const [given, ...args] = process.argv.slice(2);
if (given === undefined) fail('publish: expected the folder of the tarballs, got nothing', 2);
const folder = resolve(given); // npm takes a relative path for a repository's name
const call = (command, ...rest) => execFileSync(command, rest, { cwd: root, encoding: 'utf8', stdio: 'pipe' }).trim();

/** Packed packages, each after its dependencies. */
function inOrder(packages) {
  const names = new Map(packages.map((one) => [one.name, one])),
    done = new Set();
  const add = (one) => {
    if (done.has(one)) return;
    done.add(one);
    for (const name of Object.keys(one.dependencies ?? {})) if (names.has(name)) add(names.get(name));
    ordered.push(one);
  };
  const ordered = [];
  for (const one of packages) add(one);
  return ordered;
}

/** Tells whether the registry has this version. @throws if it does not answer */
function isThere(id) {
  try {
    return call('npm', 'view', id, 'version', ...args) !== '';
  } catch (error) {
    if (/E404/.test(error.stderr)) return false;
    throw error;
  }
}

const packed = readdirSync(folder)
  .filter((name) => name.endsWith('.tgz'))
  .sort()
  .map((name) => {
    const tarball = join(folder, name);
    return { ...JSON.parse(call('tar', '-xzOf', tarball, 'package/package.json')), tarball };
  });
const tags = new Set(call('git', 'tag').split('\n'));
try {
  for (const { name, version, tarball } of inOrder(packed)) {
    const id = `${name}@${version}`;
    if (!isThere(id)) {
      const provenance = signs(process.env) ? ['--provenance'] : [];
      call('npm', 'publish', tarball, '--ignore-scripts', '--access', 'public', ...provenance, ...args);
      console.log(`+ ${id}`);
    }
    if (!tags.has(id)) call('git', 'tag', id, '-m', id);
  }
} catch (error) {
  fail(`${error.stderr ?? ''}publish: ${error.message.split('\n')[0]}: the same command goes on with what is missing`);
}
console.log(`publish: the registry has all of ${packed.length} packages`);
