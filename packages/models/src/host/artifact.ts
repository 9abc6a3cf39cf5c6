import { KvError } from '@kv/core';
import { builtin } from '../checkpoint/builtin.ts';
import { download, isAbsent } from '../checkpoint/download.ts';
import { embeddedFolder } from '../load-model.ts';
import type { Model } from '../load-model.ts';

/** More than any statistics of a model. */
const MOST = 2 ** 28;
const LONGEST_HEADER = 2 ** 16;
/** Each file of a model is read once. */
const known = new WeakMap<Pick<Model, 'name'>, Map<string, Promise<Uint8Array | undefined>>>();

/** A model, as far as files beside it go; one whose weights are not read has no fingerprint, and is not asked for it. */
type Owner = Pick<Model, 'name'> & Partial<Pick<Model, 'fingerprint'>>;

/**
 * A file beside a model, or nothing where there is none. @throws KvError for one that cannot be read, is longer than
 * 256 MiB or says that it is of another model: the tools of this project write the model's fingerprint into theirs.
 */
export function artifactOf(model: Owner, name: string): Promise<Uint8Array | undefined> {
  const files = known.get(model) ?? new Map<string, Promise<Uint8Array | undefined>>(),
    path = beside(model.name, name),
    found = files.get(name) ?? read(path).then((bytes) => bytes && bound(bytes, path, model));
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
function bound(bytes: Uint8Array, path: string, { name, fingerprint }: Owner): Uint8Array {
  const of = fingerprintIn(bytes);
  if (of === undefined || fingerprint === undefined || of === fingerprint) return bytes;
  throw new KvError(
    path,
    `expected a file made for ${name} (fingerprint ${fingerprint.slice(0, 12)}), got one of another model (${of.slice(0, 12)})`,
  );
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
