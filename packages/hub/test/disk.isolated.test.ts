import type * as promises from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { bytes, cache, CHECKPOINT, fetchFrom, holds, single } from './model.ts';
import { startHub } from './server.ts';
import type { FakeHub } from './server.ts';

/** `kill`: no operation is done from then on. */
type Fault = 'ENOSPC' | 'EIO' | 'EACCES' | 'short' | 'kill';
const disk = vi.hoisted(() => ({ at: -1, fault: 'EIO', done: 0, struck: false }));

vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof promises>();
  /** Returns whether this operation is the one that fails; throws the fault if it is. */
  const hits = (name: string): boolean => {
    const now = disk.done++;
    if (disk.at < 0 || (disk.fault === 'kill' ? now < disk.at : now !== disk.at)) return false;
    disk.struck = true;
    if (disk.fault === 'short') return true;
    throw Object.assign(new Error(`${disk.fault}: ${name}`), { code: disk.fault, syscall: name });
  };
  const handle = (file: FileHandle): FileHandle =>
    new Proxy(file, {
      get(target, name) {
        const found = Reflect.get(target, name) as unknown;
        if (typeof found !== 'function') return found;
        return async (...args: unknown[]): Promise<unknown> => {
          if (name === 'close') return target.close();
          const short = hits(String(name));
          if (short && name === 'write') args[2] = Math.max(1, Number(args[2]) >> 1);
          return (found as (...all: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  const watched = (['open', 'rename', 'mkdir', 'symlink', 'writeFile', 'statfs'] as const).map((name) => [
    name,
    async (...args: unknown[]) => {
      hits(name);
      const result = await (actual[name] as (...all: unknown[]) => Promise<unknown>)(...args);
      return name === 'open' ? handle(result as FileHandle) : result;
    },
  ]);
  return { ...actual, ...(Object.fromEntries(watched) as object) };
});

const WEIGHTS = bytes(50_000);
let hub: FakeHub;
beforeAll(async () => {
  hub = await startHub({ 'org/tiny': single(WEIGHTS) });
});
afterAll(() => hub.close());

test.each<Fault>(['ENOSPC', 'EIO', 'EACCES', 'short', 'kill'])(
  '%s at every operation: a sentence, nothing half-entered, and the next attempt brings it whole',
  async (fault) => {
    let operations = 0;
    for (let at = 0, reached = true; reached; at++) {
      const home = cache();
      Object.assign(disk, { at, fault, done: 0, struck: false });
      const error = await fetchFrom(hub, home).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      reached = disk.struck;
      disk.at = -1;
      if (reached) operations++;
      if (fault === 'kill') expect(error === undefined).toBe(!reached);
      else if (error !== undefined) {
        expect(KvError.is(error)).toBe(true);
        expect((error as KvError).message).toMatch(
          /: expected (?:room for the model, got a full disk \(.* next time\)|a cache folder that can be written, got E\w+)$/,
        );
        expect((error as KvError).message.startsWith(join(home, 'hub'))).toBe(true);
      } else if (fault !== 'short' && reached) expect(at).toBeGreaterThan(0);
      const snapshot = await fetchFrom(hub, home);
      expect(holds(snapshot, single(WEIGHTS), CHECKPOINT)).toBe(true);
    }
    expect(operations).toBeGreaterThan(20);
  },
  120_000,
);
