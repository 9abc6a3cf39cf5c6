import { KvError } from '@kv/core';
import { builtin } from './builtin.ts';
import { embeddedFolder } from './embedded.ts';

/** More than any statistics of a model. */
const MOST = 2 ** 28;

/** Reads files beside a model, each once. */
export function sidecars(model: string): (name: string) => Promise<Uint8Array | undefined> {
  const files = new Map<string, Promise<Uint8Array | undefined>>();
  return (name) => {
    const file = files.get(name) ?? sidecarFile(model, name);
    files.set(name, file);
    return file;
  };
}

/**
 * A file beside a model, or nothing where there is none. @throws KvError for one that cannot be read or is longer than
 * 256 MiB.
 */
export const sidecarFile = (model: string, name: string): Promise<Uint8Array | undefined> => read(beside(model, name));

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
