import { copyFile, mkdir, readFile, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { dirname, join, relative } from 'node:path';
import { KvError } from '@kv/core';
import { firstPart, ggufs, isCheckpoint, isQuant, partsOf } from './choose.ts';
import type { Listing, RepoFile } from './listing.ts';
import { COMMIT } from './listing.ts';
import { isSafePath } from './repo-name.ts';
import type { RepoName } from './repo-name.ts';

/** A repository's folder in the cache: blobs by checksum, snapshots of links to them, refs from names to commits. */
export interface RepoFolder {
  readonly path: string;
  readonly lock: string;
  blob(etag: string): string;
  snapshot(commit: string): string;
  /** File with the path of the GGUF file that is the only one at a commit. */
  only(commit: string): string;
}

/** Returns the paths of a repository's folder in the cache. */
export function repoFolder(cache: string, repo: string): RepoFolder {
  const name = `models--${repo.replace('/', '--')}`,
    path = join(cache, name);
  return {
    path,
    lock: join(cache, '.locks', name, 'kv.lock'),
    blob: (etag) => join(path, 'blobs', etag),
    snapshot: (commit) => join(path, 'snapshots', commit),
    only: (commit) => join(path, 'kv', commit),
  };
}

/** Checks a branch, tag or commit, which becomes part of a path. @throws KvError if it would lead elsewhere */
export function checkRevision(revision: string): string {
  if (isSafePath(revision)) return revision;
  throw new KvError('revision', `expected a branch, tag or commit, got ${JSON.stringify(revision)}`);
}

/** Returns a model's path in the cache: its folder, its .gguf file or the first part of that; undefined if any part of it is missing. */
export async function findCached(
  folder: RepoFolder,
  revision: string,
  { file, quant }: RepoName,
): Promise<string | undefined> {
  const commit = COMMIT.test(revision)
    ? revision
    : (await readFile(join(folder.path, 'refs', revision), 'utf8').catch(() => '')).trim();
  if (!COMMIT.test(commit)) return undefined;
  const snapshot = folder.snapshot(commit);
  // A link without its blob counts as missing.
  const has = (path: string): Promise<boolean> =>
    stat(join(snapshot, path)).then(
      (found) => found.isFile(),
      () => false,
    );
  const whole = async (path: string): Promise<string | undefined> => {
    for (const part of partsOf(path)) if (!(await has(part))) return undefined;
    return join(snapshot, path);
  };
  if (file !== undefined) return whole(firstPart(file));
  if (quant === undefined && (await isCheckpoint(snapshot, has, (path) => readFile(join(snapshot, path), 'utf8'))))
    return snapshot;
  // which file a name without a type means, only the repository's list says: others may have been fetched by their types
  if (quant === undefined) {
    const only = await readFile(folder.only(commit), 'utf8').catch(() => '');
    return isSafePath(only) ? whole(only) : undefined;
  }
  const all = ggufs(
    (await readdir(snapshot, { recursive: true }).catch(() => [])).map((path) => path.replaceAll('\\', '/')),
  );
  const fitting = all.filter((path) => isQuant(path, quant));
  return fitting.length === 1 ? whole(fitting[0]) : undefined;
}

/**
 * Adds files with complete blobs to the snapshot of their commit, and records the commit under the revision's name.
 * @param only the path of a GGUF file that is the only one there
 */
export async function enter(
  folder: RepoFolder,
  revision: string,
  { commit }: Listing,
  files: readonly RepoFile[],
  only?: string,
): Promise<void> {
  for (const { path, etag } of files) await link(folder.blob(etag), join(folder.snapshot(commit), path));
  if (only !== undefined) await write(folder.only(commit), only);
  if (revision !== commit) await write(join(folder.path, 'refs', revision), commit);
}

async function write(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await replace(path, (fresh) => writeFile(fresh, text));
}

/** Makes a relative link, as huggingface_hub does, or a copy if the system has no links. */
async function link(blob: string, path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await replace(path, (fresh) =>
    symlink(relative(dirname(path), blob), fresh).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPERM' && error.code !== 'ENOSYS') throw error;
      return copyFile(blob, fresh);
    }),
  );
}

/** Makes a file under a temporary name, then moves it into place atomically. */
async function replace(path: string, make: (fresh: string) => Promise<void>): Promise<void> {
  const fresh = `${path}.${randomUUID().slice(0, 8)}.new`;
  try {
    await make(fresh);
    await rename(fresh, path);
  } finally {
    await rm(fresh, { force: true });
  }
}
