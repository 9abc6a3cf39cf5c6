import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Returns the folder of an installed package, resolved upwards from another folder. */
export function installedFolder(name: string, from: string): string | undefined {
  const folder = join(from, 'node_modules', name),
    above = dirname(from);
  if (existsSync(join(folder, 'package.json'))) return realpathSync(folder);
  return above === from ? undefined : installedFolder(name, above);
}

/** Returns how to install an optional package; a clone's tools set `KV_INSTALL` to their own way. */
export const howToInstall = (name: string): string => {
  const inClone = process.env.KV_INSTALL;
  return inClone !== undefined && name !== 'onnxruntime-node'
    ? 'any command with --device webgpu installs it'
    : `${inClone ?? 'npm install'} ${name}`;
};

/** Imports the package in a folder, from its source if this code runs from source. */
export async function entry(folder: string): Promise<object> {
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    exports: { '.': Record<string, string> };
  };
  return (await import(
    pathToFileURL(join(folder, exports['.'][import.meta.url.endsWith('.ts') ? '@kv/source' : 'default'])).href
  )) as object;
}
