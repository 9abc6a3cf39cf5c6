import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { isNotInstalled } from '../src/onnx.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kv-onnx-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Writes the package `@kv/engine-onnx` to the folder. */
function install(source: string): void {
  const at = join(folder, 'node_modules/@kv/engine-onnx');
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, 'package.json'), '{ "type": "module", "exports": "./index.js" }');
  writeFileSync(join(at, 'index.js'), source);
}
/** Returns the error with which Node fails to import the package in the folder. */
function importError(): NodeJS.ErrnoException {
  const script =
    "import('@kv/engine-onnx').catch(({ code, message }) => console.log(JSON.stringify({ code, message })))";
  const out = execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: folder, encoding: 'utf8' });
  const { code, message } = JSON.parse(out) as { readonly code?: string; readonly message: string };
  return Object.assign(new Error(message), { code });
}

test('a package that is not there is not installed', () => {
  expect(isNotInstalled(importError())).toBe(true);
});
test.each([
  ['webpack', "Cannot find module '@kv/engine-onnx'"],
  ['Jest', "Cannot find module '@kv/engine-onnx' from 'node_modules/@kv/models/dist/onnx.js'"],
])('a package that %s does not find is not installed', (_, message) => {
  expect(isNotInstalled(Object.assign(new Error(message), { code: 'MODULE_NOT_FOUND' }))).toBe(true);
});
test('the package is imported inside `try`, without which webpack refuses to build where it is not installed', () => {
  const source = readFileSync(new URL('../src/onnx.ts', import.meta.url), 'utf8');
  expect(source).toMatch(/\btry \{[^}]*\bimport\('@kv\/engine-onnx'\);/);
});
test.each([
  ['imports a package that is missing', "import 'another-package';"],
  ['imports a file that is missing', "import './engine.js';"],
  ['throws', "throw new Error('broken');"],
])('a package that %s is installed', (_, source) => {
  install(source);
  expect(isNotInstalled(importError())).toBe(false);
});
