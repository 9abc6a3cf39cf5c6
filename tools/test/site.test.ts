import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { entries } from '@kv/core';
import { catalogue } from '@kv/policies';
import { expect, onTestFinished, test } from 'vitest';
import { root } from '../lib/process.mjs';
import { asPage } from '../site/links.mjs';
import { addGuessable, deadAddresses, guessable } from '../site/addresses.mjs';
import { measured, panelsOf } from '../site/landing.mjs';
import { methodsOverview, pageOf, piecePage, programPage } from '../site/pages.mjs';
import { uses } from '../site/uses.ts';

const pages = new Map([
  ['README.md', 'start.md'],
  ['docs/algebra.md', 'docs/algebra.md'],
  ['packages/core/README.md', 'packages/core/index.md'],
  ['@kv/core', 'packages/core/index.md'],
]);
const page = (text: string, file = 'README.md', at = 'start.md'): string =>
  asPage(text, file, at, pages, (path) => path === 'docs/kept.svg');

test('a link of the repository leads to the page of the site, wherever it stands', () => {
  expect(page('[a](docs/algebra.md#x) [b](packages/core) [c](packages/core#an-engine)')).toBe(
    '[a](./docs/algebra.md#x) [b](./packages/core/index.md) [c](./packages/core/index.md#an-engine)',
  );
  expect(page('[home](../README.md) [`@kv/core`](../packages/core/)', 'docs/algebra.md', 'docs/algebra.md')).toBe(
    '[home](../start.md) [`@kv/core`](../packages/core/index.md)',
  );
  expect(page('[it](/playground/index.html){: target="_self"}')).toBe('[it](/playground/index.html){: target="_self"}');
  expect(page('![kept](docs/kept.svg) [here](#words)')).toBe('![kept](/docs/kept.svg) [here](#words)');
});

test('the name of a package in code leads to its page, once, and not in a program', () => {
  expect(page('`@kv/core` [`@kv/core`](packages/core) `@kv/none`', 'docs/algebra.md', 'docs/algebra.md')).toBe(
    '[`@kv/core`](../packages/core/index.md) `@kv/core` `@kv/none`',
  );
  expect(page("```js\nimport '`@kv/core`';\n```\n")).toBe("```js\nimport '`@kv/core`';\n```\n");
});

test('a link to what the site does not have is its text; code, addresses and comments are left, left and dropped', () => {
  expect(page('see [the plan](studies/plan.json) and [x](https://a.b/c)')).toBe('see the plan and [x](https://a.b/c)');
  expect(page('```js\nf([a](b))\n```\n')).toBe('```js\nf([a](b))\n```\n');
  expect(page('<!-- begin pieces (npm run readmes) -->\na\n')).toBe('a\n');
});

test('a program stands with what it prints', () => {
  const text = programPage('T', 'L', 'examples/a.mjs', '// prints:\n// one\n// two\nconsole.log(1);\n');
  expect(text).toContain('```js\nconsole.log(1);\n```');
  expect(text).toContain('It prints\n\n```text\none\ntwo\n```');
});

test('a page of a piece has what it declares, and links to what composes with it', () => {
  const piece = {
    ...{ name: 'caote', kind: 'transform', says: 'S.', source: 'Who, eq. 6', package: '@kv/scorers-caote' },
    ...{ signals: ['values'], takes: 'nothing', after: ['weights'], leaves: 'weights' },
    options: [{ key: 'square', value: 'false', want: 'true or false', says: 'a|b' }],
    beside: { scorer: ['snapkv'] },
  };
  const snapkv = { name: 'snapkv', kind: 'scorer' };
  const text = piecePage(piece, {
    tokens: 9,
    layers: 1,
    heads: 1,
    pieces: [snapkv],
    readme: 'packages/x/',
    equation: 'c = 1',
  });
  for (const part of [
    '# caote',
    '| reads | `values` |',
    '## Equation\n\nc = 1',
    '| `square` | `false` | a\\|b (true or false) |',
  ])
    expect(text).toContain(part);
  expect(text).toContain(`[\`snapkv\`](/${pageOf(snapkv)})`);
  expect(text).not.toContain('What it keeps');
});

test("a method's page says when to use it, what to take instead, and a line that runs it, before what it is", () => {
  const alpha = {
    ...{ name: 'alpha', kind: 'method', says: 'S.', source: 'Who', package: '@kv/policies', takes: 'nothing' },
    ...{ signals: [], options: [], beside: {}, example: 'alpha(window=16)', line: 'run "Q:" --policy \'alpha\'' },
    use: { when: 'W.', instead: { snapkv: 'it is plain' }, measured: 'M.' },
  };
  const snapkv = { name: 'snapkv', kind: 'scorer', says: 'T.', use: { when: 'V.', instead: {} } };
  const page = piecePage(alpha, {
    ...{ tokens: 9, layers: 1, heads: 1 },
    pieces: [alpha, snapkv],
    readme: 'packages/policies/',
    equation: '',
  });
  for (const part of ['W.', 'M. [The evidence](/docs/evidence)', '| [`snapkv`](/pieces/snapkv) | it is plain |'])
    expect(page).toContain(part);
  expect(page).toContain('npm run -s kv -- run "Q:" --policy \'alpha\'');
  expect(page.indexOf('## Run it')).toBeLessThan(page.indexOf('## What it is'));
  const all = methodsOverview([alpha, snapkv], [{ when: 'R', policy: 'snapkv(window=16) | topK' }]);
  expect(all.indexOf('| R | [`snapkv(window=16) \\| topK`](/pieces/snapkv) |')).toBeLessThan(all.indexOf('| W. |'));
  expect(all).toContain('| [`snapkv`](/pieces/snapkv) | T. | V. |');
});

test('every method has its use, and what a use names is a method or a scorer', () => {
  const all = entries(catalogue).map(({ factory: { description } }) => description),
    named = all.filter(({ kind }) => kind === 'method' || kind === 'scorer').map(({ name }) => name);
  const methods = all.filter(({ kind }) => kind === 'method').map(({ name }) => name);
  expect(methods.filter((name) => !(name in uses))).toEqual([]);
  const others = Object.values(uses).flatMap(({ instead }) => Object.keys(instead));
  expect([...Object.keys(uses), ...others].filter((name) => !named.includes(name))).toEqual([]);
  for (const [name, { instead }] of Object.entries(uses)) {
    expect(Object.keys(instead), name).not.toContain(name);
    expect(Object.keys(instead).length, name).toBeGreaterThan(0);
  }
});

test('a page is found without its ending, with a slash, in lower case and under the other heading', () => {
  const pages = ['index.html', '404.html', 'guides/index.html', 'methods/taFast.html', 'pieces/snapkv.html'];
  expect(Object.fromEntries(guessable(pages, new Map([['methods/snapkv', 'pieces/snapkv.html']])))).toEqual({
    'methods/taFast/index.html': 'methods/taFast.html',
    'methods/tafast.html': 'methods/taFast.html',
    'methods/tafast/index.html': 'methods/taFast.html',
    'pieces/snapkv/index.html': 'pieces/snapkv.html',
    'methods/snapkv.html': 'pieces/snapkv.html',
    'methods/snapkv/index.html': 'pieces/snapkv.html',
  });
});

test('such addresses lead there below any path, and an address that leads nowhere is found', () => {
  const folder = mkdtempSync(join(tmpdir(), 'kv-site-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  };
  write('index.html', '<a href="/kv/methods/taFast.html#x">');
  write('404.html', '<head></head>');
  write('methods/taFast.html', '<a class="x" href="/kv/">');
  addGuessable(folder, '/kv/', new Map());
  expect(readFileSync(join(folder, 'methods/tafast/index.html'), 'utf8')).toContain('url=/kv/methods/taFast.html');
  expect(readFileSync(join(folder, '404.html'), 'utf8')).toContain('toLowerCase()');
  expect(deadAddresses(folder, '/kv/')).toEqual([]);
  write('methods/other.html', '<img src="/none.svg"><a href="none">x</a><a href="https://a.b/">y</a>');
  expect(deadAddresses(folder, '/kv/')).toEqual(['methods/other.html: /none.svg', 'methods/other.html: none']);
});

test('the picture of the first page has each token from the block that reads it to the event that drops it', () => {
  const line = (policy: string, read: number, kept: number[]): string =>
    JSON.stringify({ policy, read, kept: [[kept]] });
  const printed = [
    line('a', 2, [0, 1]),
    line('a', 4, [1, 2]), // 3 leaves with its own block
    line('a', 5, [1]),
    JSON.stringify({ policy: 'a', answer: ' bX' }),
  ].join('\n');
  const [panel] = panelsOf(printed, ['a', 'b', 'c', 'd', 'e'], 'bX');
  expect(panel).toMatchObject({ isRight: true, slots: 1, frames: 3, held: [0.4, 0.4, 0.2] });
  expect(panelsOf(printed, ['a', 'b', 'c', 'd', 'e'], 'b')[0]!.runs).toEqual([
    { text: 'a', from: 0, to: 1, isFact: false },
    { text: 'b', from: 0, to: undefined, isFact: true },
    { text: 'cd', from: 1, to: 2, isFact: false },
    { text: 'e', from: 2, to: 2, isFact: false },
  ]);
});

test("the first page's number is the study's", () => {
  const table = readFileSync(join(root, 'studies/hard-half/results-3-SmolLM2-135M-Instruct-4096.json'), 'utf8');
  const { prompts, tokens, share, full } = measured(JSON.parse(table), 'outstandingSentences(kind=mean)', '10%');
  expect([prompts, tokens]).toEqual([200, 4096]);
  expect(readFileSync(join(root, 'docs/evidence.md'), 'utf8')).toMatch(
    new RegExp(`\\| SmolLM2-135M-Instruct \\| ${parseFloat(full)} \\| [\\d.]+ \\| ${parseFloat(share).toFixed(1)} `),
  );
});

test.each([
  [['--help'], 0, /^npm run -s site -- \[--build\]/],
  [['--base', 'a b'], 2, /^site: --base must be a path such as \/kv\/, got a b\n$/],
  [['--prot', '1'], 2, /^site: Unknown option '--prot'/],
  [['--port', 'x'], 2, /^site: --port must be a port from 0 to 65535, got x\n$/],
])('%j ends before anything is built', (args, status, says) => {
  const ended = spawnSync(process.execPath, [join(root, 'tools/site.mjs'), ...args], { encoding: 'utf8' });
  expect([ended.status, ended.stdout + ended.stderr]).toEqual([status, expect.stringMatching(says)]);
});
