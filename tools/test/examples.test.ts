import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
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

test('a program elsewhere in a clone, or outside, finds the packages as well', async () => {
  const program = "import { compose } from '@kv/core';\nconsole.log(typeof compose);\n";
  for (const folder of ['.', tmpdir()]) expect(await runExample(folder, program, 'mine.mjs')).toBe('function\n');
});

test('a program in bench/ finds node-llama-cpp, whose native part stays where it is', async () => {
  const program = "import { getLlama } from 'node-llama-cpp';\nconsole.log(typeof getLlama);\n";
  expect(await runExample('bench', program, 'mine.mjs')).toBe('function\n');
});

test('the README of the examples has a line for each, with the command that runs it', () => {
  const [lines, all] = [
    [...text('examples/README.md').matchAll(/^\| `npm run -s example -- (\S+)` \| .+ \|$/gm)].map(
      ([, program]) => program,
    ),
    readdirSync(join(root, 'examples')).filter((name) => /\.(?:mjs|html)$/.test(name)),
  ];
  expect(lines.sort()).toEqual(all.map((name) => `examples/${name}`).sort());
  expect(lines).toHaveLength(10);
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
