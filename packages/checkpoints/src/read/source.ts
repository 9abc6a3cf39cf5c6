import { KvError } from '@kv/core';
import { builtin } from './builtin.ts';
import { receive, type DownloadOptions } from './download.ts';
import { joinedBytes } from './join-bytes.ts';
import { parseJson } from './json.ts';

/** Bytes that can be read by range: a file, a URL, an array. */
export interface ByteSource {
  /** Name in error messages. */
  readonly name: string;
  /** Total bytes. */
  readonly size: number;
  /**
   * Reads exactly `length` bytes from `offset`. They may come in `into`, which has as many.
   * @throws KvError if the source ends first
   */
  read(offset: number, length: number, into?: Uint8Array): Promise<Uint8Array>;
  close(): Promise<void>;
}

/**
 * Returns a source over bytes in memory; `read` returns views.
 * @param name name in errors
 * @throws KvError, from `read`, for bytes past the end
 */
export function bytesSource(bytes: ArrayBuffer | Uint8Array, name: string): ByteSource {
  const all = bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes);
  return {
    name,
    size: all.length,
    async read(offset, length) {
      if (offset + length > all.length) throw ended(name, offset, length, all.length);
      return all.subarray(offset, offset + length);
    },
    async close() {},
  };
}

/** The parts of a `File` or `Blob` that are used. */
export interface FileBlob {
  /** Size in bytes. */
  readonly size: number;
  slice(start: number, end: number): { arrayBuffer(): Promise<ArrayBuffer> };
}

/** Returns a source over a file that a user chose, or that a browser stores; it is read in slices. */
export function blobSource(blob: FileBlob, name: string): ByteSource {
  const { size } = blob;
  return {
    name,
    size,
    async read(offset, length) {
      if (offset + length > size) throw ended(name, offset, length, size);
      return new Uint8Array(
        await blob
          .slice(offset, offset + length)
          .arrayBuffer()
          .catch((cause: Error) => {
            throw new KvError(name, `cannot be read (${cause.message})`);
          }),
      );
    },
    async close() {},
  };
}

/** Bytes of a download that are held as an array; a browser keeps blobs outside the page, on disk if they are large. */
const heldBytes = 2 ** 25;

/**
 * Returns a source over an HTTP(S) URL. One request fetches all bytes, since many servers ignore ranges; those of a large
 * file become a blob as they come.
 * @throws KvError for a refusal, silence or too many bytes; the signal's reason when aborted
 */
export async function urlSource(url: string | URL, options?: DownloadOptions): Promise<ByteSource> {
  const blobs: Blob[] = [];
  let parts: Uint8Array<ArrayBuffer>[] = [],
    held = 0;
  await receive(
    url,
    (part) => {
      parts.push(part);
      held += part.length;
      if (held < heldBytes) return;
      blobs.push(new Blob(parts));
      [parts, held] = [[], 0];
    },
    options,
  );
  return blobs.length === 0
    ? bytesSource(joinedBytes(parts), String(url))
    : blobSource(new Blob([...blobs, ...parts]), String(url));
}

/** Returns a source over a file (Node), read by range through one handle. @throws KvError if it cannot be opened */
export async function fileSource(path: string): Promise<ByteSource> {
  const { open, stat } = builtin<typeof import('node:fs/promises')>('node:fs/promises');
  const readable = <T>(work: Promise<T>): Promise<T> =>
    work.catch((cause: NodeJS.ErrnoException) => {
      throw new KvError(path, `cannot be read (${cause.code ?? cause.message})`);
    });
  // Opening a pipe blocks until something writes to it.
  if (!(await readable(stat(path))).isFile()) throw new KvError(path, 'is not a regular file');
  const handle = await readable(open(path));
  const size = (await handle.stat()).size;
  return {
    name: path,
    size,
    async read(offset, length, into) {
      if (offset + length > size) throw ended(path, offset, length, size);
      const bytes = into ?? arrayOf(length, path);
      for (let done = 0; done < length; ) {
        const part = Math.min(length - done, maxRead);
        const { bytesRead } = await readable(handle.read(bytes, done, part, offset + done));
        if (bytesRead === 0) throw ended(path, offset, length, size);
        done += bytesRead;
      }
      return bytes;
    },
    close: () => handle.close(),
  };
}

/** @throws KvError for more bytes than an array has here, as a large table stored in 32 bits may */
function arrayOf(length: number, name: string): Uint8Array {
  try {
    return new Uint8Array(length);
  } catch (cause) {
    throw new KvError(
      name,
      `expected tensors that fit into an array, got one of ${length} bytes (${(cause as Error).message}); take a file that stores it in fewer bits`,
    );
  }
}

/** Wraps a source so that its reads throw the signal's reason once it is aborted. */
export function abortable(source: ByteSource, signal: AbortSignal | undefined): ByteSource {
  if (signal === undefined) return source;
  return {
    ...source,
    read(...part) {
      signal.throwIfAborted();
      return source.read(...part);
    },
  };
}

/** Maximum bytes of JSON, longer than any configuration or tokenizer. */
export const maxJson: number = 2 ** 27;

/** Maximum bytes of one read, since the system refuses 2 GiB. */
const maxRead = 2 ** 30;

/**
 * Reads a whole source as JSON.
 * @throws KvError if it is not JSON, nests deeply, repeats a name or is longer than 128 MiB
 */
export async function readJson(source: ByteSource): Promise<unknown> {
  if (source.size > maxJson)
    throw new KvError(source.name, `expected JSON of at most ${maxJson} bytes, got ${source.size}`);
  return parseJson(await source.read(0, source.size), source.name);
}

function ended(name: string, offset: number, length: number, size: number): KvError {
  return new KvError(name, `expected ${length} bytes at ${offset}, got a file of ${size} bytes`);
}
