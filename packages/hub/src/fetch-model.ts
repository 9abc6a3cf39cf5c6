import { mkdir, readFile, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { KvError } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { bytesHere, downloadBlob } from './blob.ts';
import type { BlobRequest } from './blob.ts';
import { choose, shardsOf } from './choose.ts';
import { cacheFolder, endpointOf, isOffline, tokenOf } from './environment.ts';
import type { Environment } from './environment.ts';
import { FETCH, type DownloadPlan, type FetchOptions } from './options.ts';
import type { Hub } from './http.ts';
import { listing } from './listing.ts';
import type { Listing, RepoFile } from './listing.ts';
import { withLock } from './lock.ts';
import { startMeter } from './meter.ts';
import { parseRepo } from './repo-name.ts';
import type { RepoName } from './repo-name.ts';
import { routeOf } from './proxy.ts';
import type { Route } from './proxy.ts';
import { checkRevision, enter, findCached, repoFolder } from './snapshot.ts';
import type { RepoFolder } from './snapshot.ts';

/**
 * Returns the local folder of a repository's checkpoint (`org/name`), or its .gguf file (`org/name:Q4_K_M`,
 * `org/name/file.gguf`, or the only one there is; of one in parts the first, next to the others), in the cache that huggingface_hub uses. What is cached is used
 * without network; the rest is downloaded, verified, and entered once all of it is complete.
 * @throws KvError in one sentence for any failure; the signal's reason when aborted
 */
export async function fetchModel(model: string, given: FetchOptions = {}): Promise<string> {
  const options = settleOwn('fetchModel', FETCH, given),
    { revision, signal, onWait, env = process.env } = options;
  const name = parseRepo(model),
    folder = repoFolder(cacheFolder(env), name.repo);
  const cached = await findCached(folder, checkRevision(revision), name);
  if (cached !== undefined) return cached;
  if (options.offline ?? isOffline(env))
    throw new KvError(
      name.repo,
      `expected the model in ${folder.path}, since no network may be used, got ${await offlineState(folder)} (revision ${revision})`,
    );
  const route = await routeOf(env);
  try {
    const hub = await hubOf(env, route, options);
    // Another process may have downloaded it in the meantime.
    return await withLock(
      folder.lock,
      { signal, onWait },
      async () => (await findCached(folder, revision, name)) ?? download(hub, name, revision, folder, options),
    );
  } catch (error) {
    throw asSentence(error, folder);
  } finally {
    await route.close();
  }
}

async function hubOf(
  env: Environment,
  { fetch }: Route,
  { signal, attempts, backoffMs, timeoutMs }: ResolvedOptions<typeof FETCH>,
): Promise<Hub> {
  return {
    endpoint: endpointOf(env),
    token: await tokenOf(env),
    tokenAdvice: 'set HF_TOKEN',
    signal,
    attempts,
    backoffMs,
    timeoutMs,
    fetch,
  };
}

async function offlineState(folder: RepoFolder): Promise<string> {
  return statfs(folder.path).then(
    () => 'only a part of it',
    () => 'no such folder',
  );
}

async function download(
  hub: Hub,
  name: RepoName,
  revision: string,
  folder: RepoFolder,
  { onPlan, onProgress }: FetchOptions,
): Promise<string> {
  const found = await listing(hub, name.repo, revision);
  const { files, index, gguf } = choose(name, found.files);
  await mkdir(dirname(folder.blob('x')), { recursive: true });
  const shards = index ? await indexed(hub, name.repo, folder, found, index) : [];
  const all = [...files, ...shards];
  await bring(
    hub,
    all.map((file) => wantedOf(name.repo, folder, found, file)),
    folder,
    {
      onProgress,
      onPlan: (size) => onPlan?.({ repo: name.repo, commit: found.commit, license: found.license, ...size }),
    },
  );
  await enter(
    folder,
    revision,
    found,
    all,
    name.file === undefined && name.quant === undefined ? gguf?.path : undefined,
  );
  const snapshot = folder.snapshot(found.commit);
  return gguf ? join(snapshot, gguf.path) : snapshot;
}

/** Downloads a sharded checkpoint's index first, since it names the shards. */
async function indexed(
  hub: Hub,
  repo: string,
  folder: RepoFolder,
  found: Listing,
  index: RepoFile,
): Promise<readonly RepoFile[]> {
  return shardsOf(
    repo,
    index,
    async () => {
      await bring(hub, [wantedOf(repo, folder, found, index)], folder);
      return readFile(folder.blob(index.etag), 'utf8');
    },
    found.files,
  );
}

const wantedOf = (repo: string, folder: RepoFolder, { commit }: Listing, file: RepoFile): BlobRequest => ({
  ...file,
  repo,
  commit,
  blob: folder.blob(file.etag),
});

async function bring(
  hub: Hub,
  wanted: readonly BlobRequest[],
  folder: RepoFolder,
  {
    onPlan,
    onProgress,
  }: Pick<FetchOptions, 'onProgress'> & {
    readonly onPlan?: (size: Pick<DownloadPlan, 'total' | 'here'>) => void | Promise<void>;
  } = {},
): Promise<void> {
  // Two files with the same bytes share a blob.
  const files = [...new Map(wanted.map((file) => [file.etag, file])).values()];
  const total = files.reduce((sum, { size }) => sum + size, 0),
    meter = startMeter(total, onProgress);
  let here = 0;
  for (const file of files) here += await bytesHere(file);
  const { bavail, bsize, blocks } = await statfs(folder.path),
    free = bavail * bsize;
  if (blocks > 0 && total - here > free)
    throw new KvError(folder.path, `expected room for ${total - here} bytes, got ${free} on this disk`);
  await onPlan?.({ total, here });
  meter.had(here);
  for (const file of files) await downloadBlob(hub, file, meter);
}

/** Turns a file-system error into a sentence. */
function asSentence(error: unknown, { path }: RepoFolder): unknown {
  const { code, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || syscall === undefined) return error;
  return new KvError(
    path,
    code === 'ENOSPC' || code === 'EDQUOT'
      ? 'expected room for the model, got a full disk (what has come is kept, and continued next time)'
      : `expected a cache folder that can be written, got ${code}`,
  );
}
