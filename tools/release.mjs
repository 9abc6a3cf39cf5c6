/**
 * `npm run release`: versions, build, checks, publish, from a clean clone of somebody who is logged in. With `-- --dry-run` nothing is committed,
 * tagged or published, and versions stay. In GitHub's CI each tarball gets a statement of provenance. Other arguments
 * go to `pnpm publish`, such as `--registry URL`, `--tag next`.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { install } from './lib/install.mjs';
import { manifest, published } from './lib/manifests.mjs';
import { env, fail, root, run } from './lib/process.mjs';
import { dirty, repository, signs, unbuilt } from './lib/release.mjs';

const args = process.argv.slice(2),
  dryRun = args.includes('--dry-run');

/** Its output. Ends the process where it fails. */
async function step(says, command, ...rest) {
  if (says !== '') console.error(`release: ${says}`);
  const { code, output } = await run(command, rest);
  if (code !== 0)
    fail(`${output}release: '${command} ${rest.join(' ')}' failed, and nothing was published: see above.`);
  return output;
}
const status = () => step('', 'git', 'status', '--porcelain');

const why = dirty(await status());
if (why !== undefined) fail(`release: ${why}`, 2);
if (repository() === undefined)
  fail(
    "release: packages must say where their sources are, but this clone's origin is no public address: set KV_REPOSITORY",
    2,
  );

const registry = args.filter((arg, i) => arg.startsWith('--registry') || args[i - 1] === '--registry'),
  mayPublish = signs(process.env) || (await run('npm', ['whoami', ...registry])).code === 0,
  nobody = "release: nobody is logged in to the registry, so that nothing can be published: 'npm login' first";
if (!mayPublish && !dryRun) fail(`${nobody}, or add '-- --dry-run' for all but that`, 2);

await install('all');
const waiting = readdirSync(join(root, '.changeset')).filter((name) => name.endsWith('.md') && name !== 'README.md');
if (dryRun) console.error(`release: ${waiting.length} changesets would make versions`);
else if (waiting.length > 0) {
  await step(`versions from ${waiting.length} changesets`, 'changeset', 'version');
  await step('the lock file', 'npx', '-y', manifest(root).packageManager, 'install', '--lockfile-only');
}

await step('build', 'turbo', 'run', 'build', 'types', '--output-logs=errors-only');
await step('checks', process.execPath, 'tools/check.mjs');
const missing = published().flatMap(({ folder, manifest }) => unbuilt(join(root, folder), manifest));
if (missing.length > 0) fail(`release: ${missing.join('; ')}`, 2);

if (!dryRun && dirty(await status()) !== undefined) {
  await step('commit', 'git', 'add', '-A');
  await step('', 'git', 'commit', '-m', 'Release');
}
if (signs(process.env)) env.NPM_CONFIG_PROVENANCE = 'true';
// what the registry has already is left out, so that the same command goes on after a failure
const said = await step('publish', 'pnpm', '-r', 'publish', '--no-git-checks', '--access', 'public', ...args);
console.log(said.trim());
if (!mayPublish) console.error(nobody);
if (!dryRun) console.log((await step('tags', 'changeset', 'tag')).trim());
