import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { folder, kv } from './terminal.ts';

const cwd = folder(),
  write = (name: string, text: string): void => writeFileSync(join(cwd, name), text);
write(
  'code.json',
  '{"type":"object","properties":{"code":{"type":"string","pattern":"^[A-Z0-9]{8}$"}},"required":["code"]}',
);
write('long.json', '{"const":"a text that takes more tokens than four"}');
write('not.json', '{"not":{}}');
write('list.json', '[]');
write('text.json', '{"type":');
mkdirSync(join(cwd, 'dir.json'));
const run = (file: string, ...args: string[]): ReturnType<typeof kv> =>
  kv(['run', 'The code is: XK7M9P2Q. The code is:', '--model', 'embedded', '--json-schema', file, ...args], { cwd });

test('kv run --json-schema answers with JSON that fits, as text, in --json, and for every question', async () => {
  const code = { code: expect.stringMatching(/^[A-Z0-9]{8}$/) };
  expect(JSON.parse((await run('code.json')).stdout)).toEqual(code);
  expect(JSON.parse(JSON.parse((await run('code.json', '--json', '--temperature', '1')).stdout).text)).toEqual(code);
  write('story.txt', 'The code is: XK7M9P2Q.');
  const { stdout } = await kv(
    [
      'run',
      '--model',
      'embedded',
      '--json-schema',
      'code.json',
      '--document',
      'story.txt',
      '--question',
      ' The code is:',
      '--question',
      ' Code:',
      '--json',
    ],
    { cwd },
  );
  expect(JSON.parse(stdout).answers.map(({ text }: { text: string }) => JSON.parse(text))).toEqual([code, code]);
});

test('it says when the answer is not whole', async () => {
  const { code, stderr } = await run('long.json', '--max-new-tokens', '4');
  expect([code, stderr]).toEqual([
    0,
    expect.stringContaining('the answer is not whole JSON: it reached --max-new-tokens\n'),
  ]);
});

test.each([
  ['no.json', 'no.json: cannot be read (ENOENT)'],
  ['dir.json', 'dir.json: cannot be read (EISDIR)'],
  ['text.json', 'text.json: expected JSON, got text that ends too early'],
  ['list.json', 'list.json: expected a JSON schema, which is an object, true or false, got a list'],
  ['not.json', "schema: 'not' cannot be followed: leave it out and check the answer instead"],
])('a file that gives none is refused in one sentence (%s)', async (file, sentence) => {
  const { code, stdout, stderr } = await run(file);
  expect([code, stdout, stderr.trim().split('\n').at(-1)]).toEqual([2, '', expect.stringContaining(sentence)]);
});
