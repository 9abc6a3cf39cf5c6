import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync } from 'node:fs';
import { open, readdir, rename, stat, unlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import { CONVERSATIONS } from '../options.ts';
import type { ConversationsFolder } from '../options.ts';
import type { ConversationStore } from './conversation-store.ts';
import { SteadyStore } from './steady-store.ts';

/** Returns what an option names: a store, or a folder, which is made. @throws KvError for neither, or no such folder */
export function storeOf(given: ConversationsFolder | ConversationStore | undefined): ConversationStore | undefined {
  if (!given) return undefined;
  if ('get' in given) return new SteadyStore(given);
  const { folder, bytes, hours } = settleOwn('conversations', CONVERSATIONS, given);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    accessSync(folder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new KvError(
      'conversations',
      `expected a folder that this process may read and write, got ${(cause as Error).message}`,
    );
  }
  return new ConversationFolder(folder, { bytes, age: hours * 3_600_000 });
}

/** Bounds of a folder of conversations. */
export interface FolderBounds {
  /** Bytes of all files; the least recently used are deleted first. */
  readonly bytes: number;
  /** Milliseconds after which a file that was not used is deleted. */
  readonly age: number;
}

/** What a key is, so that none is a path. */
const KEY = /^[0-9a-f]{64}$/;
const FILE = /^([0-9a-f]{64})\.conversation$/,
  /** What a server that ended while it wrote has left. */
  UNFINISHED = /^[0-9a-f]{64}\.[0-9a-f-]{36}\.unfinished$/;

/**
 * Keeps conversations as files of one folder, which only its owner can read. A file appears whole or not at all; other
 * files of the folder, and links, are left alone.
 */
export class ConversationFolder implements ConversationStore {
  readonly #folder: string;
  readonly #bounds: FolderBounds;
  /** By key, least recently used first. */
  readonly #files = new Map<string, { readonly bytes: number; readonly used: number }>();
  #bytes = 0;
  #listed: Promise<void> | undefined;

  constructor(folder: string, bounds: FolderBounds) {
    [this.#folder, this.#bounds] = [folder, bounds];
  }

  get held(): { readonly bytes: number; readonly entries: number } {
    return { bytes: this.#bytes, entries: this.#files.size };
  }

  async get(key: string): Promise<Uint8Array | undefined> {
    await this.#list();
    const path = this.#path(key),
      file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(absent);
    if (!file) {
      this.#forget(key);
      return undefined;
    }
    try {
      const found = await file.stat();
      if (!found.isFile() || found.size > this.#bounds.bytes) return undefined;
      const bytes = await file.readFile(),
        now = new Date();
      this.#note(key, bytes.length);
      await utimes(path, now, now).catch(() => {}); // another server may have deleted it
      return bytes;
    } finally {
      await file.close();
    }
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    await this.#list();
    if (bytes.length > this.#bounds.bytes) return;
    const path = this.#path(key),
      unfinished = join(this.#folder, `${key}.${randomUUID()}.unfinished`);
    try {
      await writeFile(unfinished, bytes, { mode: 0o600, flag: 'wx' });
      await rename(unfinished, path);
    } catch (cause) {
      await unlink(unfinished).catch(() => {});
      throw cause;
    }
    this.#note(key, bytes.length);
    await this.#shrink();
  }

  async delete(key: string): Promise<void> {
    await this.#list();
    this.#forget(key);
    await unlink(this.#path(key)).catch(absent);
  }

  #path(key: string): string {
    if (!KEY.test(key))
      throw new KvError('conversations', `expected a key of 64 hexadecimal digits, got ${key.slice(0, 80)}`);
    return join(this.#folder, `${key}.conversation`);
  }

  /** Lists the folder once: what an earlier server has left counts too. */
  #list(): Promise<void> {
    return (this.#listed ??= this.#read());
  }
  async #read(): Promise<void> {
    const found: { readonly key: string; readonly bytes: number; readonly used: number }[] = [],
      now = Date.now();
    for (const name of await readdir(this.#folder)) {
      const at = join(this.#folder, name),
        [, key] = FILE.exec(name) ?? [];
      const of = (key !== undefined || UNFINISHED.test(name)) && (await stat(at).catch(absent));
      if (!of || !of.isFile()) continue;
      if (key !== undefined) found.push({ key, bytes: of.size, used: of.mtimeMs });
      else if (now - of.mtimeMs > UNFINISHED_MS) await unlink(at).catch(absent);
    }
    for (const { key, bytes, used } of found.sort((a, b) => a.used - b.used)) this.#note(key, bytes, used);
    await this.#shrink();
  }

  #note(key: string, bytes: number, used = Date.now()): void {
    this.#forget(key);
    this.#files.set(key, { bytes, used });
    this.#bytes += bytes;
  }
  #forget(key: string): void {
    this.#bytes -= this.#files.get(key)?.bytes ?? 0;
    this.#files.delete(key);
  }

  /** Deletes what is too old, and the least recently used of what is too much. */
  async #shrink(): Promise<void> {
    const { bytes, age } = this.#bounds;
    for (const [key, { used }] of [...this.#files]) {
      if (this.#bytes <= bytes && Date.now() - used <= age) return;
      this.#forget(key);
      await unlink(this.#path(key)).catch(absent);
    }
  }
}

/** How old an unfinished file is that no server writes any more. */
const UNFINISHED_MS = 600_000;

/** Returns undefined for a file that is not there, or is a link. @throws any other error */
function absent(cause: unknown): undefined {
  const { code } = cause as NodeJS.ErrnoException;
  if (code === 'ENOENT' || code === 'ELOOP') return undefined;
  throw cause;
}
