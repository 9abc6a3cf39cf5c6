import { expect, test } from 'vitest';
import { tracked } from '../lib/tracked.mjs';

/** Constructs that turn text into code, except imports of a name written in the source. */
const RUNS = /\bimport\((?!\s*(?:\/\*[^*]*\*\/\s*)?['"])|\brequire\((?!['"])|\bnew Function\b|\beval\(|\bnode:vm\b/;

const sources = tracked((path: string) => /^(?:apps|packages)\/(?:.*\/)?src\/.*\.ts$/.test(path));

// Each of these imports what a command line names, what is installed, or one fixed package; no model file, cache,
// result or address reaches them (apps/cli/test/data-is-not-code.test.ts).
test('code is imported by names that are not in the source in six places', () => {
  expect(sources.length).toBeGreaterThan(300);
  expect(sources.flatMap(({ path, text }) => (RUNS.test(text) ? [path] : [])).sort()).toEqual([
    'apps/cli/src/bench/peer.ts',
    'apps/cli/src/optional-package.ts',
    'apps/cli/src/policy/installed.ts',
    'apps/cli/src/policy/policy-module.ts',
    'packages/engine-onnx/src/installed.ts',
    'packages/grammars/src/xgrammar/factory.ts',
  ]);
});
