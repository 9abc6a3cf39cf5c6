import { KvError } from '@kv/core';
import { expectNamed, type FileIdentity } from './fingerprint.ts';
import { builtin } from '../read/builtin.ts';
import { download, isAbsent } from '../read/download.ts';
import { embeddedFolder } from './embedded.ts';
import { blobSource, type FileBlob } from '../read/source.ts';

type Blobs = ReadonlyMap<string, FileBlob>;

/** More than any statistics of a model. */
const MOST = 2 ** 28;
const LONGEST_HEADER = 2 ** 16;

/**
 * Reads files beside a model, each once. @throws KvError for one that says that it is of another model, as the tools of
 * this project write the model's fingerprint into theirs; before the model's names are known none is told apart.
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
    const bytes = await reading;
    const owner = names();
    if (bytes && owner) checkOwner(bytes, beside(model, name), model, owner);
    return bytes;
  };
}

/**
 * A file beside a model, or nothing where there is none. @throws KvError for one that cannot be read or is longer than
 * 256 MiB.
 */
export const sidecarFile = (model: string, name: string): Promise<Uint8Array | undefined> => read(beside(model, name));

/** A file beside a model among files by name. @throws KvError as `sidecarFile` does */
export const sidecarBlob = async (model: string, name: string, files: Blobs): Promise<Uint8Array | undefined> => {
  const at = /\.gguf$/i.test(model) ? beside(model.slice(model.lastIndexOf('/') + 1), name) : name,
    blob = files.get(at);
  if (!blob) return undefined;
  if (blob.size > MOST) throw tooLong(at, blob.size);
  return blobSource(blob, at).read(0, blob.size);
};

const beside = (model: string, name: string): string =>
  /\.gguf$/i.test(model)
    ? `${model}.${name}`
    : `${model === 'embedded' ? embeddedFolder() : model.replace(/\/+$/, '')}/${name}`;

async function read(path: string): Promise<Uint8Array | undefined> {
  if (/^https?:/.test(path)) {
    return (await isAbsent(path)) ? undefined : download(path, { maxBytes: MOST });
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

/** @throws KvError for a safetensors file whose metadata name the fingerprint of another model. */
function checkOwner(bytes: Uint8Array, path: string, model: string, owner: FileIdentity): void {
  const of = fingerprintIn(bytes);
  if (of !== undefined) expectNamed(path, owner, of, `a file made for ${model}`);
}

/** What its header says; the piece that reads the file says what is wrong with one that is none. */
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
