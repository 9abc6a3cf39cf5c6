import { createHash } from 'node:crypto';
import { existsSync, fstatSync, fsyncSync, ftruncateSync, readFileSync, readSync, readdirSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { crc32 } from 'node:zlib';
import { KvError } from '@kv/core';
import { acquireLock } from '@kv/hub/lock';
import { asSentence, checkWritable, syncFolder, withFileErrors, withFile, writeAll } from './whole-file.ts';

/** Version of the file format: older files are ignored. Increase it when results change their meaning. */
const FORMAT = 2;

/** Results on disk as JSON lines with checksums, after a line with the settings. */
interface Store<R> {
  readonly path: string;
  /** Results of earlier runs with the same settings. */
  readonly found: readonly R[];
  /** Number of lines skipped: truncated by a crash, or with a wrong checksum. */
  readonly damaged: number;
  /** Checks, before hours of work, that results can be stored. @throws KvError if not */
  ready(): void;
  /**
   * Appends a result; it is on the disk when this returns. @throws KvError with what to do; earlier results stay intact
   */
  add(result: R): void;
}

/** Returns a short hash of the settings, which names the file. */
export const digest = (settings: object): string =>
  createHash('sha256')
    .update(JSON.stringify([FORMAT, settings]))
    .digest('hex')
    .slice(0, 12);

/** Returns the path of the results of these settings. */
export const storePath = (folder: string, name: string, settings: object): string =>
  join(folder, `${name}-${digest(settings)}.jsonl`);

/**
 * Timing of locks in milliseconds. A lock of another machine that was not refreshed for `staleMs` is taken over; heavy
 * work may delay its holder's timers.
 */
const LOCK = { beatMs: 2000, pollMs: 200, staleMs: 60_000 };

/**
 * Locks the results at this path (or any other resource that `path` names) against other processes, waiting if needed;
 * the returned function unlocks. `onWait` is called once if there is a wait. @throws KvError if no lock can be written;
 * the signal's reason once it is aborted
 */
export async function lockStore(
  path: string,
  { signal, onWait }: { readonly signal?: AbortSignal; readonly onWait?: ((path: string) => void) | undefined } = {},
): Promise<() => Promise<void>> {
  try {
    return await acquireLock(`${path}.lock`, { signal, onWait: () => onWait?.(path), times: LOCK });
  } catch (error) {
    throw asSentence(relative(process.cwd(), path), error);
  }
}

/**
 * Opens the results of these settings. With `fresh` existing ones are dropped; without a folder nothing is stored. A
 * last line truncated by a crash is skipped, and cut off before the next append; a line with a wrong checksum is
 * skipped, or an error with `strict`. `name` is the file name's prefix. Only `fresh` and `add` write, and need the lock
 * of `lockStore`. @throws KvError for files that cannot be read, have another format, or whose first line was changed
 */
export function openStore<R>({
  folder,
  name,
  settings,
  fresh = false,
  strict = false,
}: {
  readonly folder: string | undefined;
  readonly name: string;
  readonly settings: object;
  readonly fresh?: boolean | undefined;
  readonly strict?: boolean | undefined;
}): Store<R> {
  if (folder === undefined) return { path: '', found: [], damaged: 0, ready: () => {}, add: () => {} };
  const path = storePath(folder, name, settings),
    called = relative(process.cwd(), path);
  let cut = false;
  const there = withFileErrors(called, () => {
    if (fresh) rmSync(path, { force: true });
    return existsSync(path) ? readResults<R>(path, called, strict) : { found: [], damaged: 0 };
  });
  return {
    path,
    ...there,
    ready: () => checkWritable(path, called, { folder: true }),
    add: (result) =>
      withFileErrors(called, () => {
        const isNew = withFile(path, 'a+', 0o600, (file) => {
          if (!cut) cutTorn(file, path);
          cut = true;
          const empty = fstatSync(file).size === 0;
          if (empty) append(file, { format: FORMAT, settings });
          append(file, result as object);
          return empty;
        });
        if (isNew) syncFolder(folder);
      }),
  };
}

/**
 * Returns the results of every file of a folder that `openStore` created with this name, by path. @throws KvError like
 * `openStore` with `strict`
 */
export function foundStores<R>(folder: string, name: string): ReadonlyMap<string, readonly R[]> {
  const file = new RegExp(`^${name}-[0-9a-f]{12}\\.jsonl$`),
    files = withFileErrors(relative(process.cwd(), folder), () => (existsSync(folder) ? readdirSync(folder) : [])),
    read = (path: string): readonly [string, readonly R[]] => {
      const called = relative(process.cwd(), path);
      return [path, withFileErrors(called, () => readResults<R>(path, called, true)).found];
    };
  return new Map(files.filter((one) => file.test(one)).map((one) => read(join(folder, one))));
}

/** Cuts off an incomplete last line. */
function cutTorn(file: number, path: string): void {
  const bytes = readFileSync(path),
    end = bytes.lastIndexOf(10) + 1;
  if (end < bytes.length) ftruncateSync(file, end);
}

/** Appends a line and syncs it; on failure removes what was written of it. */
function append(file: number, value: object): void {
  const json = JSON.stringify(value),
    line = Buffer.from(`${json.slice(0, -1)}${json === '{}' ? '' : ','}"crc32":"${sum(json)}"}\n`),
    before = fstatSync(file).size;
  try {
    writeAll(file, line);
    fsyncSync(file);
  } catch (error) {
    // only this line's bytes: another process's line may follow
    const left = Buffer.alloc(fstatSync(file).size - before);
    readSync(file, left, 0, left.length, before);
    if (line.subarray(0, left.length).equals(left)) ftruncateSync(file, before);
    throw error;
  }
}

const sum = (json: string): string => crc32(json).toString(16).padStart(8, '0');

const SUMMED = /^(.*?),?"crc32":"([0-9a-f]{8})"\}$/s;

/** Returns the result of a line, if its checksum matches. */
function parsed<R>(line: string): readonly R[] {
  const [, start, own] = SUMMED.exec(line) ?? [],
    json = `${start}}`;
  return start !== undefined && sum(json) === own ? [JSON.parse(json) as R] : [];
}

function readResults<R>(path: string, called: string, strict: boolean): Pick<Store<R>, 'found' | 'damaged'> {
  const bytes = readFileSync(path),
    end = bytes.lastIndexOf(10) + 1;
  const [settings, ...lines] = bytes.subarray(0, end).toString('utf8').split('\n').slice(0, -1);
  if (settings === undefined) return { found: [], damaged: 0 };
  const [head] = parsed<{ readonly format?: unknown }>(settings);
  if (head?.format === FORMAT) {
    const found = lines.flatMap((line, i) => {
      const results = parsed<R>(line);
      if (strict && results.length === 0)
        throw new KvError(`${called}, line ${i + 2}`, 'expected what was written, got a line with a wrong checksum');
      return results;
    });
    return { found, damaged: lines.length - found.length + Number(end < bytes.length) };
  }
  const got = head ? `format ${JSON.stringify(head.format)}` : 'a first line whose checksum is wrong';
  throw new KvError(called, `expected results of format ${FORMAT} with checksums, got ${got}: move the file away`);
}
