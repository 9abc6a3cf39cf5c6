import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, rmSync, statSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { KvError } from '@kv/core';

/** File mode: readable and writable by the owner alone. */
const PRIVATE = 0o600;
const SHARED = 0o644;

/**
 * Writes a file atomically: to a temporary name, synced, then renamed. The old file stays until then.
 * @param name what errors call the file
 * @param mode the file's permissions. @defaultValue readable by all
 * @throws KvError about `name` with what to do
 */
export function writeWhole(path: string, data: string | Uint8Array, name: string, mode: number = SHARED): void {
  const part = partOf(path);
  withFileErrors(name, () => {
    try {
      withFile(part, 'w', mode, (file) => {
        writeAll(file, data);
        fsyncSync(file);
      });
      renameSync(part, path);
      syncFolder(dirname(path));
    } catch (error) {
      remove(part);
      throw error;
    }
  });
}

/**
 * Checks, before hours of work, that `writeWhole` can write there; creates the folder if `folder`. @throws KvError
 * about `name` with what to do
 */
export function checkWritable(path: string, name: string, { folder = false } = {}): void {
  withFileErrors(name, () => {
    if (folder) mkdirSync(dirname(path), { recursive: true });
    if (isFolder(path)) throw Object.assign(new Error(), { code: 'EISDIR', syscall: 'open' });
    const part = partOf(path);
    withFile(part, 'w', PRIVATE, () => {});
    remove(part);
  });
}

/** Writes all data, repeating partial writes. */
export function writeAll(file: number, data: string | Uint8Array): void {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  for (let done = 0; done < bytes.length; ) done += writeSync(file, bytes, done, bytes.length - done);
}

/** Calls `use` with an open file, and closes it. */
export function withFile<T>(path: string, flags: string, mode: number, use: (file: number) => T): T {
  const file = openSync(path, flags, mode);
  try {
    return use(file);
  } finally {
    closeSync(file);
  }
}

/** Runs `work` and converts errors of the file system to a sentence with what to do. */
export function withFileErrors<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asSentence(name, error);
  }
}

/** Converts a caught error like `withFileErrors`. */
export function asSentence(name: string, error: unknown): unknown {
  const { code = '', syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (KvError.is(error) || syscall === undefined) return error;
  return new KvError(name, ADVICE[code] ?? `expected a file that can be written, got ${code}: try another place`);
}

const READ_ONLY = 'choose another place, or ask for the right to write there';
const FULL = 'what was there before is whole: free some space and run the same again';
const ADVICE: Readonly<Record<string, string>> = {
  ENOSPC: `expected room on the disk, got a full one (${FULL})`,
  EDQUOT: `expected room on the disk, got a used up quota (${FULL})`,
  EFBIG: `expected room on the disk, got a limit on the size of files (${FULL})`,
  EACCES: `expected a folder that can be written, got EACCES: ${READ_ONLY}`,
  EPERM: `expected a folder that can be written, got EPERM: ${READ_ONLY}`,
  EROFS: `expected a folder that can be written, got a read-only disk: ${READ_ONLY}`,
  ENOENT: 'expected a folder that exists, got none: make it first, or choose another place',
  ENOTDIR: 'expected a path through folders, got one through a file: choose another place',
  EISDIR: 'expected a file, got a folder: name a file in it',
  EIO: 'expected a disk that works, got an input/output error: what was there before is whole, try another place',
};

const partOf = (path: string): string => `${path}.${process.pid}.part`;

const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;

function remove(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // On a failing disk the temporary file stays; the next write of this process replaces it.
  }
}

/** Syncs a folder, so that a rename survives a power cut; not every system can open a folder. */
export function syncFolder(path: string): void {
  try {
    withFile(path, 'r', SHARED, fsyncSync);
  } catch {
    // The rename is done all the same, and the file is complete.
  }
}
