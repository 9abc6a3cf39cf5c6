/**
 * `turbo run types`: writes the declarations of every package into its dist, from its tsconfig.build.json. One process
 * reads what all packages share once.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { manifest, onTrial, packageFolders } from './lib/manifests.mjs';
import { fail, root, run } from './lib/process.mjs';

const packages = new Map(
  packageFolders()
    .filter((folder) => folder !== root && !onTrial(folder) && existsSync(join(folder, 'tsconfig.build.json')))
    .map((folder) => [manifest(folder).name, folder]),
);
const inOrder = new Set();
/** A package comes after those whose declarations it reads. */
function add(name) {
  const folder = packages.get(name);
  if (folder === undefined || inOrder.has(folder)) return;
  const { dependencies, optionalDependencies, peerDependencies } = manifest(folder);
  for (const other of Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })) add(other);
  inOrder.add(folder);
}
for (const name of packages.keys()) add(name);
const { code, output } = await run('tsgo', [
  ...['--build', '--force', '--builders', '1'], // one after another, as they are listed
  ...Array.from(inOrder, (folder) => join(folder, 'tsconfig.build.json')),
]);
if (code !== 0) fail(`${output}types: declarations could not be written: see above.`, code);
