import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** The folder of an installed package, looked for upwards from another. */
export function installedFolder(name: string, from: string): string | undefined {
  const folder = join(from, 'node_modules', name),
    above = dirname(from);
  if (existsSync(join(folder, 'package.json'))) return realpathSync(folder);
  return above === from ? undefined : installedFolder(name, above);
}

/** How a person installs a package that kv takes where it is; a clone's tools say in `KV_INSTALL` how there. */
export const howToInstall = (name: string): string => {
  const inClone = process.env.KV_INSTALL;
  return inClone !== undefined && name !== 'onnxruntime-node'
    ? 'any command with --device webgpu installs it'
    : `${inClone ?? 'npm install'} ${name}`;
};

/** What importing the package in a folder gives: its source where this runs from source. */
export async function entry(folder: string): Promise<object> {
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    exports: { '.': Record<string, string> };
  };
  return (await import(
    pathToFileURL(join(folder, exports['.'][import.meta.url.endsWith('.ts') ? '@kv/source' : 'default'])).href
  )) as object;
}
