import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../lib/process.mjs';

/** Constructs that turn text into code, except imports of a name written in the source. */
const RUNS = /\bimport\((?!\s*(?:\/\*[^*]*\*\/\s*)?['"])|\brequire\((?!['"])|\bnew Function\b|\beval\(|\bnode:vm\b/;

const sources = ['apps', 'packages'].flatMap((top) =>
  readdirSync(join(root, top), { recursive: true, encoding: 'utf8' })
    .filter((path) => /(?:^|\/)src\/.*\.ts$/.test(path) && !/node_modules|\/dist\//.test(path))
    .map((path) => join(root, top, path)),
);

// Each of these imports what a command line names, what is installed, or one fixed package; no model file, cache,
// result or address reaches them (apps/cli/test/data-is-not-code.test.ts).
test('code is imported by names that are not in the source in five places', () => {
  expect(sources.length).toBeGreaterThan(300);
  const places = sources.filter((path) => RUNS.test(readFileSync(path, 'utf8'))).map((path) => relative(root, path));
  expect(places.sort()).toEqual([
    'apps/cli/src/bench/peer.ts',
    'apps/cli/src/optional-package.ts',
    'apps/cli/src/policy/installed.ts',
    'apps/cli/src/policy/policy-module.ts',
    'packages/engine-onnx/src/installed.ts',
  ]);
});
