import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import { calm, FAULTS, strike } from '@kv/model-testing/faulty-disk';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { folder, kv } from './terminal.ts';

vi.mock('node:fs', async (original) => (await import('@kv/model-testing/faulty-disk')).faulty(await original()));
afterEach(() => void calm());

describe('commands', () => {
  let cwd = '';
  beforeAll(() => {
    cwd = folder();
    writeTinyModel(join(cwd, 'tiny'));
    writeFileSync(join(cwd, 'doc.txt'), 'The door is green. The key is under the mat.');
    mkdirSync(join(cwd, 'out'));
  });
  const save = (): Promise<{ readonly code: number; readonly stderr: string }> =>
    kv(['run', '--model', join(cwd, 'tiny'), '--engine', 'f32', '--document', 'doc.txt', '--save-cache', 'out/c'], {
      cwd,
    });
  const chat = (): Promise<{ readonly code: number; readonly stderr: string }> =>
    kv(['chat', '--model', join(cwd, 'tiny'), '--engine', 'f32', '--max-new-tokens', '2', '--save', 'out/c'], {
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
    let operations = 0;
    for (const fault of FAULTS)
      for (let at = 0, reached = true; reached; at++) {
        strike(at, fault, path);
        const { code, stderr } = await command();
        reached = calm();
        operations += Number(reached);
        expect(readFileSync(path).equals(old), `${fault} at ${at}`).toBe(true);
        if (reached && fault !== 'kill' && code !== 0) {
          expect(code).toBe(2);
          expect(stderr).toMatch(
            /out\/c: expected .*, got .*(?:free some space|try another place|choose another place)/,
          );
        }
      }
    expect(operations).toBeGreaterThan(5 * FAULTS.length);
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
