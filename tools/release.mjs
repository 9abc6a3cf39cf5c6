/**
 * `npm run release`: versions, builds, checks and publishes, from a clean clone, when logged in to the registry. With
 * `-- --dry-run` nothing is committed, tagged or published, and versions stay. In GitHub's CI each tarball gets a
 * statement of provenance. Other arguments go to `pnpm publish`, such as `--registry URL`, `--tag next`. With `--
 * --pack FOLDER` the tarballs are written to FOLDER instead of the registry, the commit stays, and no login is needed:
 * `node tools/publish.mjs FOLDER` publishes them elsewhere, without running other code. With `-- --rehearse` all of
 * that is done in a clone of its own, on a registry of this machine, and what was published is installed and tried.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { install } from './lib/install.mjs';
import { manifest, published } from './lib/manifests.mjs';
import { env, fail, root, run, showUsage } from './lib/process.mjs';
import { packed } from './lib/packed.mjs';
import { dirty, repository, signs, unbuilt } from './lib/release.mjs';

showUsage(import.meta.filename);
const given = process.argv.slice(2);
if (given.includes('--rehearse')) {
  if (given.length > 1)
    fail(`release: expected no other argument with --rehearse, got ${given.find((arg) => arg !== '--rehearse')}`, 2);
  await install('all');
  const { rehearse } = await import('./lib/rehearse.mjs');
  process.exit(await rehearse());
}
const at = given.indexOf('--pack'),
  pack = at < 0 ? undefined : resolve(given[at + 1] ?? 'tarballs'),
  args = given.filter((_, i) => at < 0 || (i !== at && i !== at + 1)),
  dryRun = args.includes('--dry-run'),
  stop = new AbortController();

const git = (...rest) => execFileSync('git', rest, { cwd: root, stdio: 'ignore' }),
  unpublished = 'nothing was published, and the clone is as it was',
  goesOn = (rest) => () => `'npm run release' again goes on: ${rest}`;
/** Undoes what must not stay if the process ends now, and says what is left. */
let leave = () => unpublished;

/** Ends the process. @returns {never} */
const end = (output, what) =>
  fail(`${stop.signal.aborted ? 'release: stopped' : `${output}release: ${what}`}: ${leave()}`);
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => stop.abort());

/** Returns the command's output. Ends the process if it fails. */
async function step(says, command, ...rest) {
  if (says !== '') console.error(`release: ${says}`);
  const { code, output } = await run(command, rest, { signal: stop.signal });
  if (code !== 0) end(output, `'${command} ${rest.join(' ')}' failed`);
  return output;
}
const status = () => step('', 'git', 'status', '--porcelain');
const publish = ['-r', 'publish', '--no-git-checks', '--access', 'public', ...args];
/** Makes the missing tags. */
const tags = async () => (await step('', 'changeset', 'tag')).match(/New tag: .*/g) ?? [];

const why = dirty(await status());
if (why !== undefined) fail(`release: ${why}`, 2);
if (repository() === undefined)
  fail(
    "release: packages must say where their sources are, but this clone's origin is no public address: set KV_REPOSITORY",
    2,
  );

const registry = args.filter((arg, i) => arg.startsWith('--registry') || args[i - 1] === '--registry'),
  mayPublish = pack !== undefined || signs(process.env) || (await run('npm', ['whoami', ...registry])).code === 0,
  nobody = "release: nobody is logged in to the registry, so that nothing can be published: 'npm login' first";
if (!mayPublish && !dryRun) fail(`${nobody}, or add '-- --dry-run' for all but that`, 2);
if (!dryRun && (await run('git', ['var', 'GIT_COMMITTER_IDENT'])).code !== 0)
  fail(
    "release: git does not know who commits: 'git config user.name NAME' and 'git config user.email ADDRESS' first",
    2,
  );

await install('all');
const waiting = readdirSync(join(root, '.changeset')).filter((name) => name.endsWith('.md') && name !== 'README.md');
if (waiting.length === 0 && !dryRun) {
  const { output } = await run('pnpm', [...publish, '--dry-run', '--ignore-scripts'], { signal: stop.signal });
  if (output.includes('no new packages')) {
    for (const tag of await tags()) console.log(tag);
    console.log('release: there is nothing to release: no changeset waits, and the registry has every package');
    process.exit();
  }
}

console.error('release: builds and checks come before anything is published: some minutes on two cores');
if (dryRun) console.error(`release: ${waiting.length} changesets would make versions`);
else if (waiting.length > 0) {
  const before = (await step('', 'git', 'rev-parse', 'HEAD')).trim();
  leave = () => {
    git('add', '-A');
    git('commit', '--allow-empty', '--no-verify', '-m', 'Release');
    git('reset', '--keep', before);
    return unpublished;
  };
  await step(`versions from ${waiting.length} changesets`, 'changeset', 'version');
  await step('the lock file', 'npx', '-y', manifest(root).packageManager, 'install', '--lockfile-only');
  await step('', 'git', 'add', '-A');
  await step('', 'git', 'commit', '-m', 'Release');
  // undo the commit unless it can be published; changes that a person made meanwhile stay
  leave = () => {
    try {
      git('reset', '--keep', before);
      return unpublished;
    } catch {
      return "nothing was published; the commit 'Release' stays, since a file of it was changed meanwhile";
    }
  };
}

await step('build', 'turbo', 'run', 'build', 'types', '--output-logs=errors-only');
await step('checks', process.execPath, 'tools/check.mjs');
const missing = published().flatMap(({ folder, manifest }) => unbuilt(join(root, folder), manifest));
if (missing.length > 0) end('', missing.join('; '));
const changed = dirty(await status());
if (changed !== undefined) end('', changed);

if (pack !== undefined) {
  console.error('release: pack');
  for (const { name } of await packed(pack, repository())) console.log(name);
  console.log(`release: 'node tools/publish.mjs ${pack}' publishes and tags what is packed there`);
  process.exit();
}
if (signs(process.env)) env.NPM_CONFIG_PROVENANCE = 'true';
// skip what the registry already has
if (!dryRun) leave = goesOn('it publishes what the registry still lacks');
for (const line of (await step('publish', 'pnpm', ...publish)).match(/^\+ .*/gm) ?? []) console.log(line);
if (!mayPublish) console.error(nobody);
leave = goesOn('every package is published, and tags are missing');
if (!dryRun) for (const tag of await tags()) console.log(tag);
