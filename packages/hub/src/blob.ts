import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { KvError } from '@kv/core';
import { get } from './http.ts';
import type { Answer, Hub } from './http.ts';
import type { RepoFile } from './listing.ts';
import type { Meter } from './meter.ts';
import { accepted } from './refusal.ts';
import { Lost, retrying } from './retry.ts';

/** A file of a repository, and where it goes. */
export interface Wanted extends RepoFile {
  readonly repo: string;
  readonly commit: string;
  /** Its blob; what has come so far is beside it, under a name that no other tool writes to. */
  readonly blob: string;
}

const partialOf = (blob: string): string => `${blob}.kv.incomplete`;
const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => -1,
  );

/** Bytes of a file that are already here; all of them if its blob is. */
export async function bytesHere({ blob, size }: Wanted): Promise<number> {
  if ((await sizeOf(blob)) === size) return size;
  const partial = await sizeOf(partialOf(blob));
  return partial > size ? 0 : Math.max(0, partial);
}

/**
 * Downloads one file into its blob, from where an earlier attempt stopped. Nothing is under the blob's name before its
 * checksum is right.
 * @throws KvError in one sentence; the signal's reason when aborted, with what has come kept
 */
export async function downloadBlob(hub: Hub, wanted: Wanted, meter: Meter): Promise<void> {
  const { blob, size, path, etag } = wanted,
    partial = partialOf(blob);
  if ((await sizeOf(blob)) === size) return;
  const file = await open(partial, constants.O_RDWR | constants.O_CREAT);
  try {
    if ((await file.stat()).size > size) await file.truncate(0);
    const hash = await fill(hub, wanted, file, meter);
    if (hash.digest('hex') !== etag) {
      await rm(partial, { force: true });
      throw new KvError(path, `expected bytes with the checksum ${etag}, got others (they were deleted)`);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(partial, blob).catch(async (error: unknown) => {
    // Whoever shared the lock was faster.
    if ((await sizeOf(blob)) !== size) throw error;
  });
}

/** Bytes come to their own places, never at the end of what is there: two processes at once write the same. */
async function fill(hub: Hub, wanted: Wanted, file: FileHandle, meter: Meter): Promise<Hash> {
  const { repo, commit, path, size } = wanted;
  const url = `${hub.endpoint}/${repo}/resolve/${commit}/${path.split('/').map(encodeURIComponent).join('/')}`;
  let at = (await file.stat()).size,
    before = at,
    hash = await hashed(wanted, file, at, hub.signal);
  const restart = (): void => {
    meter.came(path, -at);
    at = before = 0;
    hash = start(wanted);
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
          throw new Lost('no such range');
        }
        const answer = accepted(reply, hub, { repo, revision: commit, file: path });
        if (answer.status === 200 && at > 0) restart();
        checkLength(answer, wanted, at);
        for (let part = await answer.read(); part; part = await answer.read()) {
          if (at + part.length > size) throw new KvError(path, `expected ${size} bytes, got more`);
          await write(file, part, at);
          hash.update(part);
          at += part.length;
          meter.came(path, part.length);
        }
      } finally {
        reply.end();
      }
      if (at < size) throw new Lost(`${at} of ${size} bytes`);
    },
    () => at > before,
  );
  return hash;
}

/** Large files are checked by sha256, small ones by the sha1 of git, which counts the size in. */
const start = ({ etag, size }: Wanted): Hash =>
  etag.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`);

async function hashed(
  wanted: Wanted,
  file: FileHandle,
  length: number,
  signal: AbortSignal | undefined,
): Promise<Hash> {
  const hash = start(wanted),
    part = Buffer.alloc(Math.min(length, 2 ** 20));
  for (let at = 0; at < length; ) {
    signal?.throwIfAborted();
    const { bytesRead } = await file.read(part, 0, Math.min(part.length, length - at), at);
    if (bytesRead === 0) throw new KvError(wanted.path, `expected ${length} bytes of an earlier download, got ${at}`);
    hash.update(part.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash;
}

/** What the headers promise must be the rest of the file; part of it will do for a range. */
function checkLength({ status, headers }: Answer, { path, size }: Wanted, at: number): void {
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

async function write(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; )
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
}
