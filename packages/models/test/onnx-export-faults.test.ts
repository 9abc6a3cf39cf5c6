import fs from 'node:fs';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { calm, FAULTS, faulty, strike } from '@kv/model-testing/faulty-disk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exportOnnx } from '../src/index.ts';
import { fixture } from './fixture.ts';

const folder = mkdtempSync(join(tmpdir(), 'kv-export-faults-')),
  actual = { ...fs };
const functions = (of: typeof fs): object =>
  Object.fromEntries(Object.entries(of).filter(([name, x]) => typeof x === 'function' && name !== 'promises'));
beforeAll(() => void Object.assign(fs, functions(faulty(actual))));
afterAll(() => {
  Object.assign(fs, functions(actual));
  rmSync(folder, { recursive: true });
});

const run = (into: string): Promise<readonly string[]> => exportOnnx(fixture('llama'), into, { inside: 1000 });
const held = (into: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(into, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => [name, readFileSync(join(parentPath, name), 'latin1')]),
  );

test.each(FAULTS)(
  '%s at every operation of an export: each file is as it was or whole, and the next one is',
  async (fault) => {
    const clean = mkdtempSync(join(folder, 'clean-'));
    await run(clean);
    const want = held(clean);
    expect(Object.keys(want)).toContain('model.onnx_data');
    let reached = true,
      operations = 0;
    for (let at = 0; reached; at++) {
      const into = mkdtempSync(join(folder, 'x-')),
        file = (name: string): string => join(into, /onnx/.test(name) ? `onnx/${name}` : name);
      fs.mkdirSync(join(into, 'onnx'));
      for (const name of Object.keys(want)) writeFileSync(file(name), 'old');
      strike(at, fault, into);
      const error: unknown = await run(into).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      reached = calm();
      if (reached) operations++;
      const after = held(into);
      for (const [name, text] of Object.entries(want)) expect(['old', text], name).toContain(after[name]);
      if (error === undefined) expect(after).toEqual(want);
      else {
        expect(KvError.is(error)).toBe(true);
        expect((error as Error).message).toMatch(/: expected a folder that can be written, got \w+: .*export again$/);
      }
      if (fault !== 'kill' && error !== undefined)
        expect(Object.keys(after).filter((name) => /part$/.test(name))).toEqual([]);
      await run(into);
      expect(held(into)).toEqual(want);
      rmSync(into, { recursive: true });
    }
    expect(operations).toBeGreaterThan(15);
  },
);
