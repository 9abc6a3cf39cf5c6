import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../lib/process.mjs';
import { asPage } from '../site/links.mjs';
import { leadingTo, pageOf, piecePage, programPage } from '../site/pages.mjs';

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

test('a name is an address, and one that is looked for elsewhere leads there', () => {
  expect(pageOf({ name: 'adakv', kind: 'method' })).toBe('methods/adakv');
  expect(pageOf({ name: 'snapkv', kind: 'scorer' })).toBe('pieces/snapkv');
  expect(leadingTo('pieces/snapkv')).toMatch(
    /^---\nsearch: false\nhead: .*url=\/pieces\/snapkv\.html.*\n---\n\n# snapkv\n\n\[`pieces\/snapkv`\]\(\/pieces\/snapkv\) has it\.$/,
  );
});
test.each([
  [['--help'], 0, /^npm run -s site -- \[--build\]/],
  [['--prot', '1'], 2, /^site: Unknown option '--prot'/],
  [['--port', 'x'], 2, /^site: --port must be a port from 0 to 65535, got x\n$/],
])('%j ends before anything is built', (args, status, says) => {
  const ended = spawnSync(process.execPath, [join(root, 'tools/site.mjs'), ...args], { encoding: 'utf8' });
  expect([ended.status, ended.stdout + ended.stderr]).toEqual([status, expect.stringMatching(says)]);
});
