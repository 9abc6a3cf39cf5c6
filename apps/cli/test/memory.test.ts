import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { folder, kv, type Ran } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';

const KINDS = ['ArrayBuffer', 'Float32Array', 'Float64Array', 'Uint8Array', 'Uint32Array', 'Int32Array'] as const;
const actual = Object.fromEntries(KINDS.map((kind) => [kind, globalThis[kind]]));
/** Smaller allocations always succeed. */
const SMALL = 64;

let cwd: string;
beforeAll(() => {
  cwd = folder();
  writeTinyModel(join(cwd, 'tiny'));
  writeFileSync(join(cwd, 'doc.txt'), 'The door is green. The key is under the mat.');
});
afterEach(() => void Object.assign(globalThis, actual));

/** Runs while allocation number `at` fails as in V8; returns whether it was reached. */
async function without<T>(at: number, run: () => Promise<T>): Promise<readonly [result: T, reached: boolean]> {
  let done = 0;
  const wrapped = KINDS.map((kind) => {
    type Makes = new (...args: unknown[]) => object;
    const construct = (target: Makes, args: unknown[], made: Makes): object => {
      if (typeof args[0] === 'number' && args[0] >= SMALL && done++ === at)
        throw new RangeError('Array buffer allocation failed');
      return Reflect.construct(target as new (...args: unknown[]) => object, args, made);
    };
    return [kind, new Proxy(actual[kind] as unknown as Makes, { construct })];
  });
  Object.assign(globalThis, Object.fromEntries(wrapped));
  try {
    return [await run(), done > at];
  } finally {
    Object.assign(globalThis, actual);
  }
}

const model = (): readonly string[] => ['--model', join(cwd, 'tiny'), '--engine', 'f32'];
test.each<[string, () => Promise<Ran>]>([
  ['run --save-cache', () => kv(['run', ...model(), '--document', 'doc.txt', '--save-cache', 'c'], { cwd })],
  [
    'chat --save',
    () => kv(['chat', ...model(), '--max-new-tokens', '2', '--save', 'c'], { cwd, lines: ['hello', 'again'] }),
  ],
])(
  '%s: memory that is short anywhere is a sentence, and leaves the old file whole',
  async (_, command) => {
    expect(await command()).toMatchObject({ code: 0 });
    const path = join(cwd, 'c');
    const seen = (): readonly unknown[] => [statSync(path).ino, readFileSync(path, 'base64')];
    let old = seen();
    let refused = 0;
    for (let at = 0, reached = true; reached; at += 1 + (at >> 4)) {
      const [ran, hit] = await without(at, command);
      reached = hit;
      if (ran.code === 0) old = seen();
      if (!hit || ran.code === 0) continue;
      refused++;
      expect(ran.code, ran.stderr).toBe(2);
      expect(ran.stderr).toMatch(/^(?:[^\n]*\n)*[^\n]*(?:expected [^\n]*, got |not enough: )[^\n]*\n$/);
      expect(ran.stderr).not.toContain('fault of kv');
      expect(seen()).toEqual(old);
    }
    expect(refused).toBeGreaterThan(10);
  },
  120_000,
);
