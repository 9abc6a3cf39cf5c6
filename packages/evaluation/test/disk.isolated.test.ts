import { appendFileSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { calm, FAULTS, strike, type DiskFault } from '@kv/model-testing/faulty-disk';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { openStore } from '../src/jobs/store.ts';
import { checkWritable, writeWhole } from '../src/jobs/whole-file.ts';
import { folder } from './folder.ts';

vi.mock('node:fs', async (original) => (await import('@kv/model-testing/faulty-disk')).faulty(await original()));
afterEach(() => void calm());

const openLines = <R>(within: string, name: string, settings: object): ReturnType<typeof openStore<R>> =>
  openStore<R>({ folder: within, name, settings });

/** Runs with a fault at the first operation, then at the second, and so on until no operation is left. */
function everywhere(fault: DiskFault, within: string, run: () => unknown, check: (error: unknown) => void): number {
  for (let at = 0; ; at++) {
    strike(at, fault, within);
    let error: unknown;
    try {
      run();
    } catch (thrown) {
      error = thrown;
    }
    if (!calm()) return at;
    check(error);
  }
}

function sentence(error: unknown, fault: DiskFault): void {
  if (fault === 'kill' || error === undefined) return;
  expect(KvError.is(error)).toBe(true);
  expect((error as KvError).message).toMatch(/^\S+: expected [^\n]+, got [^\n]+$/);
}

describe.each(FAULTS)('%s at every operation', (fault) => {
  test('writeWhole: what was there is whole, or what was to be there is', () => {
    const path = join(folder(), 'f');
    writeWhole(path, 'old', 'f');
    const tried = everywhere(
      fault,
      path,
      () => writeWhole(path, 'new'.repeat(1000), 'f'),
      (error) => {
        sentence(error, fault);
        expect(['old', 'new'.repeat(1000)]).toContain(readFileSync(path, 'utf8'));
        if (error === undefined) expect(readFileSync(path, 'utf8')).toBe('new'.repeat(1000));
        writeWhole(path, 'old', 'f');
        expect(readdirSync(join(path, '..'))).toEqual(['f']);
      },
    );
    expect(tried).toBeGreaterThan(4);
  });

  test('results: every one that was counted is there afterwards, and the same command goes on', () => {
    interface Result {
      readonly id: number;
      readonly text: string;
    }
    const within = folder();
    const tried = everywhere(
      fault,
      within,
      () => {
        const store = openLines<Result>(within, 'r', { run: tried2 });
        store.ready();
        for (let id = store.found.length; id < 3; id++) {
          store.add({ id, text: 'x'.repeat(100) });
          counted.add(id);
        }
      },
      (error) => {
        sentence(error, fault);
        const again = openLines<Result>(within, 'r', { run: tried2 });
        const ids = again.found.map(({ id }) => id);
        for (const id of counted) expect(ids).toContain(id);
        for (let id = again.found.length; id < 3; id++) again.add({ id, text: 'x'.repeat(100) });
        expect(openLines<Result>(within, 'r', { run: tried2 }).found.map(({ id }) => id)).toEqual([0, 1, 2]);
        counted.clear();
        tried2++;
      },
    );
    expect(tried).toBeGreaterThan(8);
  });
  let tried2 = 0;
  const counted = new Set<number>();
});

test('a line that was changed on the disk is not a result', () => {
  const within = folder();
  const store = openLines<{ id: number }>(within, 'r', {});
  for (const id of [1, 2, 3]) store.add({ id });
  writeFileSync(store.path, readFileSync(store.path, 'utf8').replace('"id":2', '"id":7'));
  expect(openLines<{ id: number }>(within, 'r', {})).toMatchObject({ found: [{ id: 1 }, { id: 3 }], damaged: 1 });
  appendFileSync(store.path, '{"id":4');
  expect(openLines(within, 'r', {}).damaged, 'a torn line').toBe(2);
  openLines(within, 'r', {}).add({ id: 5 });
  expect(openLines(within, 'r', {}).damaged, 'which the next result cuts off').toBe(1);
  const [settings = '', first = ''] = readFileSync(store.path, 'utf8').split('\n');
  expect(settings).toMatch(/^\{"format":2,"settings":\{\},"crc32":"[0-9a-f]{8}"\}$/);
  expect(JSON.parse(first)).toMatchObject({ id: 1 });
});

test('results of another format are refused in one sentence, and stay as they are', () => {
  const within = folder(),
    { path } = openLines(within, 'r', {}),
    older = readFileSync(new URL('data/store-format-1.jsonl', import.meta.url));
  writeFileSync(path, older);
  expect(() => openLines(within, 'r', {})).toThrow(
    /r-[0-9a-f]{12}\.jsonl: expected results of format 2 with checksums, got format 1: move the file away$/,
  );
  expect(readFileSync(path)).toEqual(older);
  // but for its format it is read
  const lines = older.toString('utf8').split('\n');
  openStore({ folder: within, name: 'r', settings: {}, fresh: true }).add({ id: 0 });
  const [head] = readFileSync(path, 'utf8').split('\n');
  writeFileSync(path, [head, ...lines.slice(1)].join('\n'));
  expect(openLines<object>(within, 'r', {}).found).toEqual([
    { id: 1, n: 3 },
    { id: 2, n: 4 },
  ]);
});

test.each(['store-without-checksums.jsonl', 'store-changed-head.jsonl'])(
  'results of %s are refused in one sentence, and stay as they are',
  (file) => {
    const within = folder(),
      { path } = openLines(within, 'r', {}),
      older = readFileSync(new URL(`data/${file}`, import.meta.url));
    writeFileSync(path, older);
    expect(() => openLines(within, 'r', {})).toThrow(
      /r-[0-9a-f]{12}\.jsonl: expected results of format 2 with checksums, got a first line whose checksum is wrong: move the file away$/,
    );
    expect([readdirSync(within).length, readFileSync(path)]).toEqual([1, older]);
    expect(openStore({ folder: within, name: 'r', settings: {}, fresh: true }).found).toEqual([]);
  },
);

test('a place that cannot be written is told before the work', () => {
  const within = folder();
  expect(() => checkWritable(within, 'here')).toThrow('here: expected a file, got a folder: name a file in it');
  expect(() => checkWritable(join(within, 'none/f'), 'f')).toThrow('f: expected a folder that exists, got none');
  strike(0, 'EROFS', within);
  expect(() => checkWritable(join(within, 'f'), 'f')).toThrow(
    /^f: expected a folder that can be written, got a read-only/,
  );
  calm();
  checkWritable(join(within, 'a/b/f'), 'f', { folder: true });
  expect(readdirSync(within)).toEqual(['a']);
});
