import { builtin } from '../checkpoint/builtin.ts';
import { KvError } from '@kv/core';
import { embeddedFolder } from '../load-model.ts';
import type { Model } from '../load-model.ts';

/** More than any statistics of a model. */
const MOST = 2 ** 28;
/** Each file of a model is read once. */
const known = new WeakMap<Pick<Model, 'name'>, Map<string, Promise<Uint8Array | undefined>>>();

/**
 * A file beside a model, or nothing where there is none. @throws KvError for one that cannot be read or is longer than
 * 256 MiB.
 */
export function artifactOf(model: Pick<Model, 'name'>, name: string): Promise<Uint8Array | undefined> {
  const files = known.get(model) ?? new Map<string, Promise<Uint8Array | undefined>>(),
    found = files.get(name) ?? read(beside(model.name, name));
  files.set(name, found);
  known.set(model, files);
  return found;
}

const beside = (model: string, name: string): string =>
  /\.gguf$/i.test(model)
    ? `${model}.${name}`
    : `${model === 'embedded' ? embeddedFolder() : model.replace(/\/+$/, '')}/${name}`;

async function read(path: string): Promise<Uint8Array | undefined> {
  if (/^https?:/.test(path)) {
    const response = await fetch(path);
    if (response.status === 404) return undefined;
    if (!response.ok) throw new KvError(path, `expected a file, got HTTP status ${response.status}`);
    return checked(path, new Uint8Array(await response.arrayBuffer()));
  }
  const { stat, readFile } = builtin('node:fs/promises');
  const size = await stat(path).then(
    (s) => s.size,
    (cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR') return undefined;
      throw new KvError(path, `expected a readable file, got ${cause.code ?? cause.message}`);
    },
  );
  if (size === undefined) return undefined;
  if (size > MOST) throw tooLong(path, size);
  return checked(path, await readFile(path));
}

const tooLong = (path: string, size: number): KvError =>
  new KvError(path, `expected at most ${MOST} bytes, got ${size}`);
function checked(path: string, bytes: Uint8Array): Uint8Array {
  if (bytes.length > MOST) throw tooLong(path, bytes.length);
  return bytes;
}
