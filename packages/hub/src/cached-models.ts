import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { ggufs, isCheckpoint, partsOf } from './choose.ts';
import { cacheFolder } from './environment.ts';
import type { Environment } from './environment.ts';

/** A model that `fetchModel` finds without network. */
export interface CachedModel {
  /** `org/name`, or `org/name/file.gguf`. */
  readonly name: string;
  /** Bytes of its weights. */
  readonly bytes: number;
}

const none = (): readonly string[] => [];
const names = (folder: string): Promise<readonly string[]> => readdir(folder).catch(none);

const byName = (models: ReadonlyMap<string, CachedModel>): readonly CachedModel[] =>
  [...models.values()].sort((a, b) => a.name.localeCompare(b.name));

/** Returns the models in huggingface_hub's cache, by name; none if there is no cache. */
export async function cachedModels(
  env: Environment = process.env,
): Promise<{ readonly folder: string; readonly models: readonly CachedModel[] }> {
  const folder = cacheFolder(env),
    models = new Map<string, CachedModel>();
  for (const repo of await names(folder)) {
    const [, org, name] = /^models--([^-].*?)--(.+)$/.exec(repo) ?? [];
    if (org === undefined || name === undefined) continue;
    const snapshots = join(folder, repo, 'snapshots');
    for (const commit of await names(snapshots))
      for (const found of await modelsOf(`${org}/${name}`, join(snapshots, commit))) models.set(found.name, found);
  }
  return { folder, models: byName(models) };
}

/**
 * Returns the models in a folder and its subfolders, by path; none if there is no folder.
 * @param folder folder to search
 * @param path what the paths of models start with
 */
export async function modelsIn(folder: string, path: string): Promise<readonly CachedModel[]> {
  const models = new Map<string, CachedModel>();
  for (const within of ['', ...(await names(folder))])
    for (const found of await modelsOf([path, within].filter(Boolean).join('/'), join(folder, within)))
      models.set(found.name, found);
  return byName(models);
}

/**
 * A snapshot's link has a target blob only once its download is complete. Projectors of images, GGUF files of which a part is
 * missing and repositories of which a file is missing are no models.
 */
async function modelsOf(repo: string, snapshot: string): Promise<readonly CachedModel[]> {
  const files: { readonly path: string; readonly bytes: number }[] = [];
  for (const path of await readdir(snapshot, { recursive: true }).catch(none)) {
    const found = await stat(join(snapshot, path)).catch(() => undefined);
    if (found?.isFile()) files.push({ path: path.replaceAll('\\', '/'), bytes: found.size });
  }
  const paths = new Map(files.map(({ path, bytes }) => [path, bytes])),
    shards = files.filter(({ path }) => /^model.*\.safetensors$/.test(path)),
    whole = await isCheckpoint(
      snapshot,
      async (path) => paths.has(path),
      (path) => readFile(join(snapshot, path), 'utf8'),
    );
  return [
    ...(whole ? [{ name: repo, bytes: shards.reduce((sum, { bytes }) => sum + bytes, 0) }] : []),
    ...ggufs([...paths.keys()]).flatMap((path) => {
      const sizes = partsOf(path).map((part) => paths.get(part) ?? NaN),
        bytes = sizes.reduce((sum, size) => sum + size, 0);
      return Number.isNaN(bytes) ? [] : [{ name: `${repo}/${path}`, bytes }];
    }),
  ];
}
