import { createHash } from 'node:crypto';
import { existsSync, fsyncSync, ftruncateSync, readFileSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { crc32 } from 'node:zlib';
import { KvError } from '@kv/core';
import { checkWritable, syncFolder, told, withFile, writeAll } from './whole-file.ts';

/** Grows when results change their meaning: older files are then left alone. */
const FORMAT = 2;

/** Results on disk, one JSON object with a checksum a line after a line with the settings. */
interface Store<R> {
  readonly path: string;
  /** Results of earlier runs with the same settings. */
  readonly found: readonly R[];
  /** Lines of results that were left out: torn by a crash, or with a checksum that is wrong. */
  readonly damaged: number;
  /** @throws KvError before hours of work, where results could not be kept */
  ready(): void;
  /** Keeps a result: it is on the disk when this returns. @throws KvError with what to do, what was there kept whole */
  add(result: R): void;
}

/** A short name for the settings: the same settings, the same file. */
export const digest = (settings: object): string =>
  createHash('sha256')
    .update(JSON.stringify([FORMAT, settings]))
    .digest('hex')
    .slice(0, 12);

/**
 * Opens the results of these settings; with `fresh` what was there is dropped, without a folder nothing is kept. A last
 * line that was torn by a crash is cut off, and a line whose checksum is wrong is left out, or an error with `strict`.
 * `name` begins the file's name.
 * @throws KvError where they cannot be read, have another format, or none that is known: an older kv wrote no checksums
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
  const path = join(folder, `${name}-${digest(settings)}.jsonl`),
    called = relative(process.cwd(), path);
  const there = told(called, () => {
    if (fresh) rmSync(path, { force: true });
    return existsSync(path) ? readResults<R>(path, called, strict) : { found: [], damaged: 0 };
  });
  return {
    path,
    ...there,
    ready: () => checkWritable(path, called, { folder: true }),
    add: (result) =>
      told(called, () => {
        if (!existsSync(path)) {
          append(path, { format: FORMAT, settings });
          syncFolder(folder);
        }
        append(path, result as object);
      }),
  };
}

/**
 * The results of every file of a folder that `openStore` began with this name, by path.
 * @throws KvError as it does with `strict`
 */
export function foundStores<R>(folder: string, name: string): ReadonlyMap<string, readonly R[]> {
  const file = new RegExp(`^${name}-[0-9a-f]{12}\\.jsonl$`),
    files = told(relative(process.cwd(), folder), () => (existsSync(folder) ? readdirSync(folder) : [])),
    read = (path: string): readonly [string, readonly R[]] => {
      const called = relative(process.cwd(), path);
      return [path, told(called, () => readResults<R>(path, called, true)).found];
    };
  return new Map(files.filter((one) => file.test(one)).map((one) => read(join(folder, one))));
}

/** A line that is on the disk, or none of it; answers may repeat what their prompts hold, so it is the owner’s alone. */
function append(path: string, value: object): void {
  const json = JSON.stringify(value),
    before = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  withFile(path, 'a', 0o600, (file) => {
    try {
      writeAll(file, `${json.slice(0, -1)}${json === '{}' ? '' : ','}"crc32":"${sum(json)}"}\n`);
      fsyncSync(file);
    } catch (error) {
      ftruncateSync(file, before);
      throw error;
    }
  });
}

const sum = (json: string): string => crc32(json).toString(16).padStart(8, '0');

const SUMMED = /^(.*?),?"crc32":"([0-9a-f]{8})"\}$/s;

/** What a line holds, if its checksum says that it is what was written. */
function parsed<R>(line: string): readonly R[] {
  const [, start, own] = SUMMED.exec(line) ?? [],
    json = `${start}}`;
  return start !== undefined && sum(json) === own ? [JSON.parse(json) as R] : [];
}

function readResults<R>(path: string, called: string, strict: boolean): Pick<Store<R>, 'found' | 'damaged'> {
  const bytes = readFileSync(path),
    end = bytes.lastIndexOf(10) + 1;
  if (end === 0) rmSync(path);
  else if (end < bytes.length) withFile(path, 'r+', 0o644, (file) => ftruncateSync(file, end));
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
  const got = head
    ? `format ${JSON.stringify(head.format)}: move the file away, or go on with the kv that wrote it`
    : SUMMED.test(settings)
      ? 'a first line whose checksum is wrong: move the file away'
      : 'a first line without its checksum: move the file away, or go on with the kv that wrote it';
  throw new KvError(called, `expected results of format ${FORMAT} with checksums, got ${got}`);
}
