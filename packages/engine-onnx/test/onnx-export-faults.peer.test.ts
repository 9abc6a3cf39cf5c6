import fs from 'node:fs';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { calm, FAULTS, faulty, strike } from '@kv/model-testing/faulty-disk';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { exportOnnx } from '../src/export/export.ts';
import { inTurn } from '@kv/model-testing/in-turn';
import { fixture } from '@kv/model-testing/fixture';

const folder = mkdtempSync(join(tmpdir(), 'kv-export-faults-')),
  actual = { ...fs };
/** Node 24 has some that can only be read. */
const settable = new Set(Object.keys(fs).filter((name) => Object.getOwnPropertyDescriptor(fs, name)?.writable));
const functions = (of: typeof fs): object =>
  Object.fromEntries(
    Object.entries(of).filter(([name, x]) => typeof x === 'function' && name !== 'promises' && settable.has(name)),
  );
beforeAll(() => void Object.assign(fs, functions(faulty(actual))));
afterAll(() => {
  Object.assign(fs, functions(actual));
  rmSync(folder, { recursive: true });
});

const run = (into: string): Promise<readonly string[]> => exportOnnx(fixture('llama'), into, { inlineBytes: 1000 });
const held = (into: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(into, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => [name, readFileSync(join(parentPath, name), 'latin1')]),
  );

/** As a reader sees it: a folder without its entry is no model. */
const readable = (files: Record<string, string>): Record<string, string> | undefined =>
  'config.json' in files
    ? Object.fromEntries(Object.entries(files).filter(([name]) => !/\.(?:part|replaced)$/.test(name)))
    : undefined;

test.each(inTurn(FAULTS, 2))(
  '%s at every operation of an export: a reader sees the old one whole, the new one or none, and the next one is',
  async (fault) => {
    const clean = mkdtempSync(join(folder, 'clean-'));
    await run(clean);
    const want = held(clean),
      earlier = [...Object.keys(want), 'model_q4.onnx', 'model_q4.onnx_data_1', 'chat_template.jinja'],
      old = Object.fromEntries(earlier.map((name) => [name, 'old']));
    expect(Object.keys(want)).toContain('model.onnx_data');
    let reached = true,
      operations = 0;
    for (let at = 0; reached; at++) {
      const into = mkdtempSync(join(folder, 'x-')),
        file = (name: string): string => join(into, /onnx/.test(name) ? `onnx/${name}` : name);
      fs.mkdirSync(join(into, 'onnx'));
      for (const name of earlier) writeFileSync(file(name), 'old');
      strike(at, fault, into);
      const error: unknown = await run(into).then(
        () => undefined,
        (cause: unknown) => cause,
      );
      reached = calm();
      if (reached) operations++;
      const after = held(into);
      if (error === undefined) expect(readable(after)).toEqual(want);
      else {
        expect(KvError.is(error)).toBe(true);
        expect((error as Error).message).toMatch(/: cannot be written \(\w+\); .*export again$/);
        if (fault === 'kill') expect([old, want, undefined]).toContainEqual(readable(after));
        else expect(after).toEqual(old);
      }
      await run(into);
      expect(held(into)).toEqual(want);
      rmSync(into, { recursive: true });
    }
    expect(operations).toBeGreaterThan(15);
  },
);

test('graphs of an earlier export stay where it was of the same model, with what readers must know of them', async () => {
  const into = mkdtempSync(join(folder, 'forms-')),
    graphs = (): string[] => readdirSync(join(into, 'onnx')).toSorted(),
    external = (): unknown =>
      (JSON.parse(readFileSync(join(into, 'config.json'), 'utf8')) as Record<string, unknown>)[
        'transformers.js_config'
      ];
  await run(into);
  await exportOnnx(fixture('llama'), into, { weights: ['q4'] });
  expect(graphs()).toEqual(['model.onnx', 'model.onnx_data', 'model_q4.onnx']);
  expect(external()).toEqual({ use_external_data_format: { 'model.onnx': 1 } });
  await exportOnnx(fixture('llama'), into); // its weights are in the graph now
  expect(graphs()).toEqual(['model.onnx', 'model_q4.onnx']);
  expect(external()).toBe(undefined);
  writeFileSync(join(into, 'onnx/model_fp16.onnx'), 'of another program');
  writeFileSync(join(into, 'chat_template.jinja'), 'of another model');
  await exportOnnx(fixture('qwen2'), into, { weights: ['q4'] });
  expect(graphs()).toEqual(['model_fp16.onnx', 'model_q4.onnx']);
  expect(readdirSync(into)).not.toContain('chat_template.jinja');
});

test('at no operation of an export does a reader see old files and new ones', async () => {
  const into = mkdtempSync(join(folder, 'watched-')),
    seen = new Set<string>();
  await run(into);
  const want = held(into);
  for (const name of Object.keys(want)) writeFileSync(join(into, /onnx/.test(name) ? `onnx/${name}` : name), 'old');
  const { renameSync } = fs;
  fs.renameSync = (...args) => {
    renameSync(...args);
    const now = readable(held(into));
    seen.add(now === undefined ? 'none' : Object.entries(now).every(([name, x]) => x === want[name]) ? 'new' : 'mixed');
  };
  try {
    await run(into);
  } finally {
    fs.renameSync = renameSync;
  }
  expect([...seen]).toEqual(['none', 'new']);
});
