import { KvError } from '@kv/core';
import { get } from './http.ts';
import type { HttpResponse, Hub } from './http.ts';
import type { RepoFile } from './listing.ts';
import type { Meter } from './meter.ts';
import { acceptResponse } from './refusal.ts';
import { ConnectionLost, retrying } from './retry.ts';

/** A file of a repository at one commit, and where it goes. */
export interface Transfer extends RepoFile {
  readonly repo: string;
  readonly commit: string;
}

/** What has come of a file so far. */
export interface PartialFile {
  readonly size: number;
  /** As many bytes from `at` as there are, at most those of `into`. */
  read(into: Uint8Array, at: number): Promise<number>;
  /** All of `bytes`, at `at`. */
  write(bytes: Uint8Array, at: number): Promise<void>;
}

/** A checksum that is made as bytes come. */
export interface Hash {
  update(bytes: Uint8Array): unknown;
  hex(): string;
}
/** Large files are checked by sha256, small ones by sha1. */
export type StartHash = (kind: 'sha256' | 'sha1') => Hash;

/**
 * Brings the rest of a file. Bytes come to their own places, never at the end of what is there: two processes at once
 * write the same.
 * @throws KvError in one sentence, `Mismatch` for bytes with another checksum; the signal's reason when aborted, with
 * what has come kept
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

/** What came is not what was promised, and of no use. */
export class Mismatch extends KvError {
  constructor(path: string, etag: string) {
    super(path, `expected bytes with the checksum ${etag}, got others (they were deleted)`);
  }
}

/** Git counts the size of a file in. */
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

/** What the headers promise must be the rest of the file; part of it will do for a range. */
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
