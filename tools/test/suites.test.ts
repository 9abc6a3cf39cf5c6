import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../lib/process.mjs';

const listed = (...globs: readonly string[]): string[] =>
  execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard', ...globs], {
    cwd: root,
    encoding: 'utf8',
  })
    .split('\n')
    .filter((file) => file !== '' && existsSync(join(root, file)));
const tests = listed('packages/**/*.test.ts', 'apps/**/*.test.ts').filter((file) => !file.includes('/templates/'));
const kindOf = (file: string): string | undefined =>
  /\.(isolated|device|browser|built|licensed|peer)\.test\.ts$/.exec(file)?.[1];

/** Returns a test file, with what it imports from its package's tests. */
function textOf(path: string, seen = new Set<string>()): string {
  if (seen.has(path) || !existsSync(path)) return '';
  seen.add(path);
  const text = readFileSync(path, 'utf8'),
    imported = [...text.matchAll(/(?:from |import\()'(\.{1,2}\/[^']+\.ts)'/g)].map(([, to = '']) =>
      join(dirname(path), to),
    );
  return [text, ...imported.filter((file) => !file.includes('/src/')).map((file) => textOf(file, seen))].join('\n');
}

test.each([
  ['device', /\b(?:deviceTests|firstDevice)\(|= await (?:device|openGpu)\(/],
  ['browser', /from 'playwright-core'/],
  ['built', /'\.\.\/dist\/bin\.js'/],
  ['licensed', new RegExp(`KV_${'SHARED'}`)],
  ['isolated', /\bvi\.mock\(|'--expose-gc'/],
  ['peer', /from '(?:@huggingface\/transformers|node-llama-cpp)'/],
])('what makes a test one of the project %s is in its files, and in no file of the unit tests', (kind, sign) => {
  const found = tests
    .filter((file) => sign.test(textOf(join(root, file))))
    .map((file) => [file, kindOf(file)] as const);
  expect(found.some(([, own]) => own === kind)).toBe(true);
  expect(found.filter(([, own]) => own === undefined)).toEqual([]);
});

test('no test but the licensed ones reads beside the repository', () =>
  expect(
    listed('*.ts', '*.mjs').filter((file) => readFileSync(join(root, file), 'utf8').includes(`KV_${'SHARED'}`)),
  ).toEqual(tests.filter((file) => kindOf(file) === 'licensed')));
