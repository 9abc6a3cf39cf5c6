import { KvError } from '@kv/core';
import { env } from '@huggingface/transformers';

/** Reads a file of a model. @throws KvError naming the address where there is none */
export type FileReader = (file: string) => Promise<Uint8Array>;

const isUrl = (name: string): boolean => /^https?:/.test(name);

/**
 * Returns a reader of a model's files from where transformers.js finds them: a folder, its caches, its local models, a
 * URL or the hub.
 */
export function opener(name: string, options: { readonly [option: string]: unknown }): FileReader {
  const { subfolder = 'onnx', revision = 'main', cache_dir: folder, local_files_only: atHome } = options,
    model = name.replace(/\/$/, '');
  return async (file) => {
    const path = [subfolder, file].filter(Boolean).join('/'),
      local = `${env.localModelPath.replace(/\/$/, '')}/${model}/${path}`,
      hub = env.remotePathTemplate
        .replaceAll('{model}', model)
        .replaceAll('{revision}', encodeURIComponent(String(revision))),
      remote = isUrl(model)
        ? `${model}/${path}`
        : `${env.remoteHost.replace(/\/$/, '')}/${hub}`.replace(/\/?$/, `/${path}`),
      places = [
        async () => fromDisk(`${model}/${path}`),
        async () => fromFolder(folder ?? env.cacheDir, [model, ...(revision === 'main' ? [] : [revision]), path]),
        async () => fromCaches([local, remote]),
        async () => (env.allowLocalModels && !isUrl(model) ? ((await fromDisk(local)) ?? fetched(local)) : undefined),
        async () => (atHome === true || !(isUrl(model) || env.allowRemoteModels) ? undefined : fetched(remote)),
      ];
    for (const place of places) {
      const bytes = await place();
      if (bytes) return bytes;
    }
    throw new KvError(
      'source',
      `expected ${path} of ${model} in its folder, in a cache or at ${remote}, got none there`,
    );
  };
}

/** Bytes that are read at once; Node reads no file of 2 GiB whole. */
const PART = 2 ** 30;

/**
 * Reads a file from disk in Node; undefined elsewhere, or if there is none. @throws KvError for one that cannot be read
 */
async function fromDisk(path: string): Promise<Uint8Array | undefined> {
  if (typeof process !== 'object' || typeof process.getBuiltinModule !== 'function') return undefined;
  const { open } = process.getBuiltinModule('node:fs/promises');
  let file: Awaited<ReturnType<typeof open>> | undefined;
  try {
    file = await open(path);
    const { size } = await file.stat(),
      bytes = new Uint8Array(size);
    for (let done = 0; done < size; ) {
      const { bytesRead } = await file.read(bytes, done, Math.min(size - done, PART), done);
      if (bytesRead === 0) throw new Error(`${done} of ${size} bytes`);
      done += bytesRead;
    }
    return bytes;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new KvError('source', `expected a file that can be read as ${path}, got ${code ?? message}`);
  } finally {
    await file?.close();
  }
}

const fromFolder = async (folder: unknown, path: readonly unknown[]): Promise<Uint8Array | undefined> =>
  env.useFSCache && typeof folder === 'string' ? fromDisk([folder.replace(/\/$/, ''), ...path].join('/')) : undefined;

/** Reads a file from the browser's cache or the custom cache. */
async function fromCaches(keys: readonly string[]): Promise<Uint8Array | undefined> {
  const browser = env.useBrowserCache && typeof caches === 'object' ? await caches.open(env.cacheKey) : undefined;
  for (const cache of [env.useCustomCache ? env.customCache : undefined, browser])
    for (const key of cache ? keys : []) {
      const hit: unknown = await cache?.match(key).catch(() => undefined);
      if (typeof hit === 'string') return fromDisk(hit);
      if (hit) return new Uint8Array(await (hit as Response).arrayBuffer());
    }
  return undefined;
}

async function fetched(url: string): Promise<Uint8Array | undefined> {
  const answer = (await env.fetch(url).catch(() => undefined)) as Response | undefined;
  return answer?.ok ? new Uint8Array(await answer.arrayBuffer()) : undefined;
}
