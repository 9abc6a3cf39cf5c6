import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../lib/process.mjs';
import { runExample } from '../lib/readme.mjs';

const text = (file: string): string => readFileSync(join(root, file), 'utf8');
const printed = (name: string): Promise<string> => runExample('examples', text(`examples/${name}`));

test("the README's example is examples/secret.mjs, and prints what stands below it", async () => {
  const [, code, said] = /^```js\n(.*?)^```\n\n^```text\n(.*?)^```/ms.exec(text('README.md')) ?? [];
  expect(code).toBe(text('examples/secret.mjs'));
  expect(await printed('secret.mjs')).toBe(said);
});

test("the README's picture is what examples/kept-map.mjs draws", async () => {
  expect(await printed('kept-map.mjs')).toBe(text('docs/kept.svg'));
});

test.each(readdirSync(join(root, 'examples')).filter((name) => /^(?!secret|kept-map).*\.mjs$/.test(name)))(
  'examples/%s prints what it says that it prints',
  async (name) => {
    const [, said = ''] = /^\/\/ prints:\n((?:\/\/ .*\n)+)$/m.exec(text(`examples/${name}`)) ?? [];
    expect(await printed(name)).toBe(said.replace(/^\/\/ /gm, ''));
  },
);
