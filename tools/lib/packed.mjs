import { join } from 'node:path';
import { onTrial, published } from './manifests.mjs';
import { documentOptions } from './option-docs.mjs';
import { root, run } from './process.mjs';

/**
 * Packs every published package into a folder, as `pnpm publish` would: workspace: and catalog: specifiers become
 * versions. They must be built; what options mean is written into their declarations, and `repository` into their manifests.
 * @param {string} folder
 * @param {string} repository
 */
export async function packed(folder, repository) {
  const packages = published().filter(({ folder: source }) => !onTrial(source));
  for (const { folder: source } of packages) await documentOptions(join(root, source));
  const { code, output } = await run('env', [
    `KV_REPOSITORY=${repository}`,
    'pnpm',
    '-r',
    ...packages.flatMap(({ manifest }) => ['--filter', manifest.name]),
    'pack',
    '--pack-destination',
    folder,
  ]);
  if (code !== 0) throw new Error(`pnpm could not pack the packages:\n${output}`);
  return packages.map(({ folder: source, manifest: { name, version } }) => ({
    name,
    folder: source,
    tarball: join(folder, `${name.replace('@', '').replace('/', '-')}-${version}.tgz`),
  }));
}
