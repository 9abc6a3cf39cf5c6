import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import type { Hub } from './http.ts';
import type { Meter } from './meter.ts';
import { Mismatch, transfer } from './transfer.ts';
import type { StartHash, Transfer } from './transfer.ts';

/** A file of a repository, and its destination. */
export interface BlobRequest extends Transfer {
  /** Path of its blob. Partial downloads are next to it, under a name that no other tool writes to. */
  readonly blob: string;
}

const partialOf = (blob: string): string => `${blob}.kv.incomplete`;
const sizeOf = (path: string): Promise<number> =>
  stat(path).then(
    ({ size }) => size,
    () => -1,
  );

/** Returns the number of bytes of a file that are already here; its size if its blob exists. */
export async function bytesHere({ blob, size }: BlobRequest): Promise<number> {
  if ((await sizeOf(blob)) === size) return size;
  const partial = await sizeOf(partialOf(blob));
  return partial > size ? 0 : Math.max(0, partial);
}

const startHash: StartHash = (kind) => {
  const hash = createHash(kind);
  return { update: (bytes) => hash.update(bytes), hex: () => hash.digest('hex') };
};

/**
 * Downloads one file into its blob, resuming an earlier attempt. The blob's name appears only once
 * the checksum is right.
 * @throws KvError in one sentence; the signal's reason when aborted, with the bytes so far kept
 */
export async function downloadBlob(hub: Hub, wanted: BlobRequest, meter: Meter): Promise<void> {
  const { blob, size } = wanted,
    partial = partialOf(blob);
  if ((await sizeOf(blob)) === size) return;
  const file = await open(partial, constants.O_RDWR | constants.O_CREAT);
  try {
    if ((await file.stat()).size > size) await file.truncate(0);
    const here = (await file.stat()).size;
    await transfer(
      hub,
      wanted,
      {
        size: here,
        read: async (into, at) => (await file.read(into, 0, into.length, at)).bytesRead,
        write: (bytes, at) => write(file, bytes, at),
      },
      startHash,
      meter,
    );
    await file.sync();
  } catch (error) {
    if (error instanceof Mismatch) await rm(partial, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  await rename(partial, blob).catch(async (error: unknown) => {
    // Another holder of a shared lock was faster.
    if ((await sizeOf(blob)) !== size) throw error;
  });
}

async function write(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let done = 0; done < bytes.length; )
    done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten;
}
