import { sha1 } from '@noble/hashes/legacy.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { KvError } from '@kv/core';
import type { ResolvedOptions } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { choose, shardsOf } from './choose.ts';
import type { Hub } from './http.ts';
import { listing } from './listing.ts';
import type { RepoFile } from './listing.ts';
import { startMeter } from './meter.ts';
import { FETCH_IN_BROWSER, type BrowserFetchOptions } from './options.ts';
import { isSafePath, parseRepo } from './repo-name.ts';
import type { RepoName } from './repo-name.ts';
import { Mismatch, transfer } from './transfer.ts';
import type { StartHash } from './transfer.ts';

export type { Progress } from './meter.ts';
export type { DownloadPlan } from './options.ts';

/** A model of the hub stored by a browser, as `loadModel(name, { files })` of @kv/models takes it. */
export interface OfflineModel {
  /** The repository, or the name of its .gguf file. */
  readonly name: string;
  /** The files by name, as `loadModel` takes them. */
  readonly files: ReadonlyMap<string, File>;
}

/** OPFS methods available in workers only, which the DOM type library lacks. */
interface SyncHandle {
  read(into: Uint8Array, options: { at: number }): number;
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

interface Manifest {
  readonly name: string;
  readonly files: readonly RepoFile[];
}

const ENDPOINT = 'https://huggingface.co';

/**
 * Returns a model of the hub by name (`org/name`, `org/name:Q4_K_M`, `org/name/file.gguf`), in a dedicated worker of a
 * browser. Its files are stored in the page's own file system (OPFS), verified, and resumed after an interruption; what
 * is stored is used without network. Sends no token, so only public repositories work.
 * @throws KvError in one sentence for any failure; the signal's reason when aborted
 */
export async function fetchModel(model: string, given: BrowserFetchOptions = {}): Promise<OfflineModel> {
  const name = parseRepo(model),
    options = settleOwn('fetchModel', FETCH_IN_BROWSER, given),
    { revision, signal } = options;
  if (!isSafePath(revision))
    throw new KvError('revision', `expected a branch, tag or commit, got ${JSON.stringify(revision)}`);
  const kept = await keepFolder(name.repo),
    manifest = `${encodeURIComponent(`${model}@${revision}`)}.json`;
  const there = await keptModel(kept, manifest);
  if (there) return there;
  if (options.offline)
    throw new KvError(name.repo, 'expected a model that this browser keeps, since no network may be used, got none');
  return navigator.locks.request(`kv-hub ${name.repo}`, signal ? { signal } : {}, async () => {
    const found = await keptModel(kept, manifest);
    if (found) return found;
    await download(kept, manifest, name, revision, options);
    return (await keptModel(kept, manifest)) ?? fail(name.repo, 'expected the files that were just kept, got none');
  });
}

async function keepFolder(repo: string): Promise<FileSystemDirectoryHandle> {
  try {
    const root = await navigator.storage.getDirectory();
    return await (await root.getDirectoryHandle('kv-hub', { create: true })).getDirectoryHandle(
      repo.replace('/', '--'),
      { create: true },
    );
  } catch (cause) {
    throw new KvError(
      repo,
      `expected a browser that keeps files for this page, got ${String(cause)} (a private window may not)`,
    );
  }
}

const fileIn = async (folder: FileSystemDirectoryHandle, name: string): Promise<File | undefined> =>
  folder.getFileHandle(name).then(
    (handle) => handle.getFile(),
    () => undefined,
  );

/** Returns the model if it is complete: the manifest is written last. */
async function keptModel(folder: FileSystemDirectoryHandle, manifest: string): Promise<OfflineModel | undefined> {
  const text = await (await fileIn(folder, manifest))?.text();
  if (text === undefined) return undefined;
  try {
    const { name, files } = JSON.parse(text) as Manifest,
      kept = new Map<string, File>();
    for (const { path, etag, size } of files) {
      const file = await fileIn(folder, etag);
      if (file?.size !== size) return undefined;
      kept.set(/\.gguf$/i.test(name) ? path.slice(path.lastIndexOf('/') + 1) : path, file);
    }
    return { name, files: kept };
  } catch {
    return undefined; // a truncated manifest
  }
}

async function download(
  folder: FileSystemDirectoryHandle,
  manifest: string,
  name: RepoName,
  revision: string,
  { onPlan, onProgress, signal, attempts }: ResolvedOptions<typeof FETCH_IN_BROWSER>,
): Promise<void> {
  const hub: Hub = {
    ...{ endpoint: ENDPOINT, token: undefined, signal, attempts, backoffMs: 500, timeoutMs: 30_000 },
    tokenAdvice: 'download its files yourself, since a page sends no token',
    fetch: following,
  };
  const { commit, license, files: all } = await listing(hub, name.repo, revision),
    { files, index, gguf } = choose(name, all);
  const bring = async (wanted: readonly RepoFile[], report: typeof onProgress): Promise<void> => {
    const meter = startMeter(
      wanted.reduce((sum, { size }) => sum + size, 0),
      report,
    );
    for (const file of wanted) {
      const here = await open(folder, file, name.repo);
      try {
        meter.had(here.getSize());
        await transfer(
          hub,
          { ...file, repo: name.repo, commit },
          {
            size: here.getSize(),
            read: async (into, at) => here.read(into, { at }),
            write: async (bytes, at) => written(here, bytes, at, file),
          },
          startHash,
          meter,
        );
        here.flush();
      } catch (error) {
        if (error instanceof Mismatch) here.truncate(0);
        throw error;
      } finally {
        here.close();
      }
    }
  };
  if (index) await bring([index], undefined);
  const shards = index
      ? await shardsOf(name.repo, index, async () => (await fileIn(folder, index.etag))?.text() ?? '', all)
      : [],
    wanted = [...new Map([...files, ...shards].map((file) => [file.path, file])).values()];
  const total = wanted.reduce((sum, { size }) => sum + size, 0),
    missing = await expectRoom(folder, wanted, name.repo);
  await onPlan?.({ repo: name.repo, commit, license, total, here: total - missing });
  await bring(wanted, onProgress);
  const handle = await open(folder, { etag: manifest, path: manifest, size: 0 }, name.repo);
  try {
    const kept: Manifest = { name: gguf ? gguf.path.slice(gguf.path.lastIndexOf('/') + 1) : name.repo, files: wanted };
    handle.truncate(0);
    handle.write(new TextEncoder().encode(JSON.stringify(kept)), { at: 0 });
    handle.flush();
  } finally {
    handle.close();
  }
}

/** Browsers follow redirects themselves and send no token; the length may be that of a compressed response. */
const following: typeof fetch = async (input, init) => {
  const { body, status, headers } = await fetch(input, {
    ...init,
    redirect: 'follow',
    credentials: 'omit',
    referrerPolicy: 'no-referrer',
  });
  const seen = new Headers(headers);
  seen.delete('content-length');
  return new Response(body, { status, headers: seen });
};

const startHash: StartHash = (kind) => {
  const hash = (kind === 'sha256' ? sha256 : sha1).create();
  return { update: (bytes) => hash.update(bytes), hex: () => bytesToHex(hash.digest()) };
};

async function open(folder: FileSystemDirectoryHandle, { etag, size }: RepoFile, repo: string): Promise<SyncHandle> {
  const handle = (await folder.getFileHandle(etag, { create: true })) as FileSystemFileHandle & {
    createSyncAccessHandle?(): Promise<SyncHandle>;
  };
  const file = await handle.createSyncAccessHandle?.();
  if (!file) return fail(repo, 'expected a dedicated worker of a browser, where files can be written, got none');
  if (file.getSize() > size) file.truncate(0);
  return file;
}

function written(handle: SyncHandle, bytes: Uint8Array, at: number, { path }: RepoFile): void {
  let count: number;
  try {
    count = handle.write(bytes, { at });
  } catch (cause) {
    throw new KvError(path, `expected room in this browser, got ${String(cause)}`);
  }
  if (count < bytes.length) throw new KvError(path, `expected room in this browser, got a full one at ${at + count}`);
}

/** Returns the bytes that are still to come. @throws KvError if the browser grants less */
async function expectRoom(
  folder: FileSystemDirectoryHandle,
  wanted: readonly RepoFile[],
  repo: string,
): Promise<number> {
  const { quota, usage = 0 } = await navigator.storage.estimate();
  let missing = 0;
  for (const { etag, size } of wanted) missing += size - ((await fileIn(folder, etag))?.size ?? 0);
  if (quota !== undefined && missing > quota - usage)
    throw new KvError(
      repo,
      `expected room for ${missing} bytes, got ${quota - usage} that this browser grants the page`,
    );
  return missing;
}

function fail(at: string, message: string): never {
  throw new KvError(at, message);
}
