import { KvError } from '@kv/core';
import { get } from './http.ts';
import type { HttpResponse, Hub } from './http.ts';
import type { RepoFile } from './listing.ts';
import type { Meter } from './meter.ts';
import { acceptResponse } from './refusal.ts';
import { ConnectionLost, retrying } from './retry.ts';

/** A file of a repository at one commit, and its destination. */
export interface Transfer extends RepoFile {
  readonly repo: string;
  readonly commit: string;
}

/** A partially downloaded file. */
export interface PartialFile {
  readonly size: number;
  /** Reads bytes from `at` into `into`, at most its length; returns how many there were. */
  read(into: Uint8Array, at: number): Promise<number>;
  /** Writes all of `bytes` at `at`. */
  write(bytes: Uint8Array, at: number): Promise<void>;
}

/** An incremental checksum. */
export interface Hash {
  update(bytes: Uint8Array): unknown;
  hex(): string;
}
/** Starts a checksum: sha256 for large files, sha1 for small ones. */
export type StartHash = (kind: 'sha256' | 'sha1') => Hash;

/**
 * Downloads the rest of a file. Bytes are written at their own offsets, never appended, so two processes at once write
 * the same.
 * @throws KvError in one sentence, `Mismatch` for a wrong checksum; the signal's reason when aborted, with the bytes so
 * far kept
 */
export async function transfer(
  hub: Hub,
  wanted: Transfer,
  file: PartialFile,
  startHash: StartHash,
  meter: Meter,
): Promise<void> {
  const { repo, commit, path, size } = wanted;
  const url = `${hub.endpoint}/${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
  let at = file.size,
    before = at,
    hash = await hashed(wanted, file, at, startHash, hub.signal);
  const restart = (): void => {
    meter.came(path, -at);
    at = before = 0;
    hash = start(wanted, startHash);
  };
  await retrying(
    hub,
    path,
    async () => {
      before = at;
      if (at === size) return;
      const reply = await get(hub, url, at > 0 ? { range: `bytes=${at}-` } : {});
      try {
        if (reply.status === 416 && at > 0) {
          restart();
          throw new ConnectionLost('no such range');
        }
        const answer = acceptResponse(reply, hub, { repo, revision: commit, file: path });
        if (answer.status === 200 && at > 0) restart();
        checkLength(answer, wanted, at);
        for (let part = await answer.read(); part; part = await answer.read()) {
          if (at + part.length > size) throw new KvError(path, `expected ${size} bytes, got more`);
          await file.write(part, at);
          hash.update(part);
          at += part.length;
          meter.came(path, part.length);
        }
      } finally {
        reply.end();
      }
      if (at < size) throw new ConnectionLost(`${at} of ${size} bytes`);
    },
    () => at > before,
  );
  if (hash.hex() !== wanted.etag) throw new Mismatch(path, wanted.etag);
}

/** Thrown if the downloaded bytes have the wrong checksum and must be discarded. */
export class Mismatch extends KvError {
  constructor(path: string, etag: string) {
    super(path, `expected bytes with the checksum ${etag}, got others (they were deleted)`);
  }
}

/** Starts a file's checksum; Git's includes the size. */
function start({ etag, size }: Transfer, startHash: StartHash): Hash {
  if (etag.length === 64) return startHash('sha256');
  const hash = startHash('sha1');
  hash.update(new TextEncoder().encode(`blob ${size}\0`));
  return hash;
}

async function hashed(
  wanted: Transfer,
  file: PartialFile,
  length: number,
  startHash: StartHash,
  signal: AbortSignal | undefined,
): Promise<Hash> {
  const hash = start(wanted, startHash),
    part = new Uint8Array(Math.min(length, 2 ** 20));
  for (let at = 0; at < length; ) {
    signal?.throwIfAborted();
    const count = await file.read(part.subarray(0, Math.min(part.length, length - at)), at);
    if (count === 0) throw new KvError(wanted.path, `expected ${length} bytes of an earlier download, got ${at}`);
    hash.update(part.subarray(0, count));
    at += count;
  }
  return hash;
}

/** Checks that the headers announce the rest of the file; a range response may announce a part of it. */
function checkLength({ status, headers }: HttpResponse, { path, size }: Transfer, at: number): void {
  const length = headers.get('content-length'),
    range = headers.get('content-range');
  const promised = length === null || headers.has('content-encoding') ? undefined : Number(length);
  if (promised !== undefined && (status === 200 ? promised !== size : !(promised <= size - at)))
    throw new KvError(path, `expected ${size - at} bytes, got an answer of ${length}`);
  if (status !== 206) return;
  const [, from, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(range ?? '') ?? [];
  if (Number(from) !== at || (total !== '*' && Number(total) !== size))
    throw new KvError(path, `expected bytes from ${at} of ${size}, got ${range ?? 'no range'}`);
}
