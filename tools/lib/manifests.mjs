import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from './process.mjs';

/** Returns the folders of all packages, as pnpm-workspace.yaml finds them, the root first. */
export function packageFolders() {
  const packages = children(join(root, 'packages'));
  return [
    root,
    ...packages,
    ...packages.flatMap(children),
    ...children(join(root, 'apps')),
    join(root, 'bench'),
    join(root, 'examples'),
    join(root, 'studies'),
    join(root, 'tools'),
  ].filter((folder) => existsSync(join(folder, 'package.json')));
}

/** Tells whether a path is in a temporary package that tools/test/new.test.ts makes while other tests run. */
export const onTrial = (path) => /\/zz-trial-[a-z]+(?:\/|$)/.test(path);

/** Returns every package that is not private, with its folder and manifest. */
export const published = () =>
  packageFolders()
    .flatMap((folder) => {
      try {
        return { folder: relative(root, folder), manifest: manifest(folder) };
      } catch (error) {
        if (onTrial(folder)) return []; // it went meanwhile
        throw error;
      }
    })
    .filter(({ manifest }) => !manifest.private);

/** Packages whose manifest says that they hold pieces (`"kv": { "pieces": true }` or a subpath), as `published`. */
export const piecePackages = () => published().filter(({ manifest }) => manifest.kv?.pieces);

/** Returns a module that exports all of `packages` from source, each under its name. */
export const namespaces = (packages) =>
  packages
    .map(({ folder, manifest: { name, kv, exports } }) => {
      const subpath = typeof kv?.pieces === 'string' ? kv.pieces : '.';
      return `export * as ${JSON.stringify(name)} from ${JSON.stringify(join(root, folder, exports[subpath]['@kv/source']))};\n`;
    })
    .join('');

export const manifest = (folder) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));

function children(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'node_modules')
    .map((entry) => join(folder, entry.name))
    .sort();
}
