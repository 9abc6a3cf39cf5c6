import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { openLines } from '../src/needle/store.ts';
import { checkWritable, writeWhole } from '../src/whole-file.ts';
import { calm, FAULTS, strike, type Fault } from './faulty-disk.ts';
import { folder, kv } from './terminal.ts';
import { writeTinyModel } from './tiny-model.ts';

vi.mock('node:fs', async (original) => (await import('./faulty-disk.ts')).faulty(await original()));
afterEach(() => void calm());

/** Runs with a fault at the first operation, then at the second, until none is reached any more. */
function everywhere(fault: Fault, within: string, run: () => unknown, check: (error: unknown) => void): number {
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

function sentence(error: unknown, fault: Fault): void {
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
  expect(openLines<{ id: number }>(within, 'r', {}).found).toEqual([{ id: 1 }, { id: 3 }]);
  const [settings = '', first = ''] = readFileSync(store.path, 'utf8').split('\n');
  expect(settings).toMatch(/^\{"format":2,"settings":\{\},"crc32":"[0-9a-f]{8}"\}$/);
  expect(JSON.parse(first)).toMatchObject({ id: 1 });
});

test('results without checksums, of an older kv, are put aside', () => {
  const within = folder();
  const { path } = openLines(within, 'r', {});
  const old = '{"format":2,"settings":{}}\n{"id":1}\n';
  writeFileSync(path, old);
  const store = openLines<{ id: number }>(within, 'r', {});
  expect(store.found).toEqual([]);
  store.add({ id: 2 });
  expect(openLines<{ id: number }>(within, 'r', {}).found).toEqual([{ id: 2 }]);
  expect(readFileSync(`${path}.old`, 'utf8')).toBe(old);
});

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

describe('commands', () => {
  let cwd = '';
  beforeAll(() => {
    cwd = folder();
    writeTinyModel(join(cwd, 'tiny'));
    writeFileSync(join(cwd, 'doc.txt'), 'The door is green. The key is under the mat.');
    mkdirSync(join(cwd, 'out'));
  });
  const save = (): Promise<{ readonly code: number; readonly stderr: string }> =>
    kv(['run', '--model', join(cwd, 'tiny'), '--engine', 'wasm', '--document', 'doc.txt', '--save-cache', 'out/c'], {
      cwd,
    });
  const chat = (): Promise<{ readonly code: number; readonly stderr: string }> =>
    kv(['chat', '--model', join(cwd, 'tiny'), '--engine', 'wasm', '--max-new-tokens', '2', '--save', 'out/c'], {
      cwd,
      lines: ['hello'],
    });

  test.each([
    ['run --save-cache', save],
    ['chat --save', chat],
  ])('%s: a saved cache is its owner’s alone, and stays whole when the next one fails', async (_, command) => {
    const path = join(cwd, 'out/c');
    expect(await command()).toMatchObject({ code: 0 });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const old = readFileSync(path);
    for (const fault of ['ENOSPC', 'EIO', 'kill'] as const)
      for (let at = 0, reached = true; reached; at += 2) {
        strike(at, fault, path);
        const { code, stderr } = await command();
        reached = calm();
        expect(existsSync(path) && readFileSync(path).length).toBe(old.length);
        if (reached && fault !== 'kill' && code !== 0) {
          expect(code).toBe(2);
          expect(stderr).toMatch(/out\/c: expected .*, got .*(?:free some space|try another place)/);
        }
      }
  });

  test('a folder that is missing is told before a model is loaded', async () => {
    const { code, stderr } = await kv(
      ['run', '--model', 'nowhere', '--document', 'doc.txt', '--save-cache', 'missing/c', '--question', 'x'],
      { cwd },
    );
    expect([code, stderr]).toEqual([
      2,
      'missing/c: expected a folder that exists, got none: make it first, or choose another place\n',
    ]);
  });
});
