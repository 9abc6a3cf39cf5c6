import { KvError } from '@kv/core';
import { expectNamed, type FileIdentity } from './fingerprint.ts';
import { builtin } from '../read/builtin.ts';
import { isGguf, isUrl, splitName, withPath } from '../read/address.ts';
import { download, isAbsent } from '../read/download.ts';
import { embeddedFolder } from './embedded.ts';
import { blobSource, type FileBlob } from '../read/source.ts';

type Blobs = ReadonlyMap<string, FileBlob>;

/** Maximum bytes of a sidecar file, more than any model's statistics take. */
const MOST = 2 ** 28;
const LONGEST_HEADER = 2 ** 16;

/**
 * Returns a reader of the files next to a model, which reads each once. This project's tools write the model's
 * fingerprint into their files; until the model's own fingerprint is known, none is checked.
 * @throws KvError for a file that names another model
 */
export function sidecars(
  model: string,
  names: () => FileIdentity | undefined,
  file: (name: string) => Promise<Uint8Array | undefined> = (name) => sidecarFile(model, name),
): (name: string) => Promise<Uint8Array | undefined> {
  const files = new Map<string, Promise<Uint8Array | undefined>>();
  return async (name) => {
    const reading = files.get(name) ?? file(name);
    files.set(name, reading);
    reading.catch(() => files.delete(name)); // so that it is read again
    const bytes = await reading;
    const owner = names();
    if (bytes && owner) checkOwner(bytes, sidecarPath(model, name), model, owner);
    return bytes;
  };
}

/**
 * Reads a file next to a model, or returns undefined if there is none.
 * @throws KvError for one that cannot be read or is longer than 256 MiB
 */
export const sidecarFile = (model: string, name: string): Promise<Uint8Array | undefined> =>
  read(sidecarPath(model, name));

/** Reads a model's sidecar file from files given by name. @throws KvError as `sidecarFile` does */
export const sidecarBlob = async (model: string, name: string, files: Blobs): Promise<Uint8Array | undefined> => {
  const at = isGguf(model) ? `${splitName(model)[1]}.${name}` : name,
    blob = files.get(at);
  if (!blob) return undefined;
  if (blob.size > MOST) throw tooLong(at, blob.size);
  return blobSource(blob, at).read(0, blob.size);
};

/** Returns the path of a file next to a model: in its folder, or, for a `.gguf`, after the model's own name and a dot. */
export function sidecarPath(model: string, name: string): string {
  const after = `${isGguf(model) ? '.' : '/'}${name}`;
  if (isUrl(model)) return withPath(model, (path) => path + after).href;
  return (model === 'embedded' ? embeddedFolder() : model.replace(/\/+$/, '')) + after;
}

async function read(path: string): Promise<Uint8Array | undefined> {
  if (isUrl(path)) {
    return (await isAbsent(path)) ? undefined : download(path, { maxBytes: MOST });
  }
  const { stat, readFile } = builtin<typeof import('node:fs/promises')>('node:fs/promises');
  const size = await stat(path).then(
    (s) => s.size,
    (cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR') return undefined;
      throw new KvError(path, `cannot be read (${cause.code ?? cause.message})`);
    },
  );
  if (size === undefined) return undefined;
  if (size > MOST) throw tooLong(path, size);
  return checked(path, await readFile(path));
}

/** Checks a file's owner. @throws KvError for a safetensors file whose metadata has another model's fingerprint */
function checkOwner(bytes: Uint8Array, path: string, model: string, owner: FileIdentity): void {
  const of = fingerprintIn(bytes);
  if (of !== undefined) expectNamed(path, owner, of, `a file made for ${model}`);
}

/** Returns the fingerprint in a file's header. A broken file is left for the piece that reads it to report. */
function fingerprintIn(bytes: Uint8Array): string | undefined {
  const size = bytes.length < 8 ? 0 : Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (size === 0 || size > Math.min(LONGEST_HEADER, bytes.length - 8)) return undefined;
  try {
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + size))) as {
      readonly __metadata__?: { readonly fingerprint?: unknown };
    };
    const of = header.__metadata__?.fingerprint;
    return typeof of === 'string' ? of : undefined;
  } catch {
    return undefined;
  }
}

const tooLong = (path: string, size: number): KvError =>
  new KvError(path, `expected at most ${MOST} bytes, got ${size}`);
function checked(path: string, bytes: Uint8Array): Uint8Array {
  if (bytes.length > MOST) throw tooLong(path, bytes.length);
  return bytes;
}
