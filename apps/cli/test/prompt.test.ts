import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';
import type { Ran } from './terminal.ts';

const CODE = 'The secret code is: XK7M9P2Q. The secret code is:';
let cwd: string, plain: string, templated: string;
beforeAll(() => {
  cwd = folder();
  plain = writeTinyModel(join(cwd, 'plain'));
  templated = writeTinyModel(join(cwd, 'templated'));
  writeFileSync(
    join(templated, 'chat_template.jinja'),
    '{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}',
  );
});
/** Tokens of the prompt of a run: the tiny model reads bytes, after one that begins a text. */
const read = async (model: string, args: readonly string[], lines?: readonly string[]): Promise<number> => {
  const ran = await kv(['run', '--model', model, ...args, '--max-new-tokens', '1', '--json'], {
    cwd,
    ...(lines && { lines, piped: true }),
  });
  expect(ran.code, ran.stderr).toBe(0);
  return (JSON.parse(ran.stdout) as { kept: number[][][] }).kept[0]![0]!.length;
};

it('a prompt is the same as an argument, an option, a file and standard input, without one newline at its end', async () => {
  const text = fc.stringMatching(/^[a-z][a-z \n]{0,20}[a-z]$/);
  await fc.assert(
    fc.asyncProperty(text, fc.constantFrom('', '\n', '\r\n', '\n\n'), async (prompt, end) => {
      writeFileSync(join(cwd, 'p.txt'), prompt + end);
      const more = end === '\n\n' ? 1 : 0,
        length = 1 + prompt.length;
      expect(await read(plain, [prompt])).toBe(length);
      expect(await read(plain, ['--prompt', prompt])).toBe(length);
      expect(await read(plain, ['--prompt-file', 'p.txt'])).toBe(length + more);
      const lines = (prompt + (more ? '\n' : '')).split('\n');
      expect(await read(plain, [], lines)).toBe(length + more);
      expect(await read(plain, ['-'], lines)).toBe(length + more);
    }),
    { numRuns: 10 },
  );
});

describe('bytes of a prompt', () => {
  const MARK = '\uFEFF';
  it('are a text in UTF-8 without its byte-order mark, in a file, in ids and in standard input', async () => {
    writeFileSync(join(cwd, 'marked.txt'), `${MARK}Hello`);
    writeFileSync(join(cwd, 'marked.json'), `${MARK}[0, 74, 103]`);
    expect([
      await read(plain, ['--prompt-file', 'marked.txt']),
      await read(plain, [], [`${MARK}Hello`]),
      await read(plain, ['--prompt-ids', 'marked.json']),
    ]).toEqual([6, 6, 3]);
  });
  it.each([
    ['UTF-16 with a mark', Buffer.from(`${MARK}Hello`, 'utf16le')],
    ['UTF-16 without one', Buffer.from('Hello', 'utf16le')],
    ['Latin-1', Buffer.from('caf\u00e9', 'latin1')],
  ])('are refused in %s', async (_, bytes) => {
    writeFileSync(join(cwd, 'other.txt'), bytes);
    for (const [args, at] of [
      [['--prompt-file', 'other.txt'], 'other.txt'],
      [['--prompt-ids', 'other.txt'], 'other.txt'],
      [['--document', 'other.txt', '--question', 'x'], 'other.txt'],
      [['-'], 'standard input'],
    ] as const) {
      const { code, stderr } = await kv(['run', '--model', plain, ...args], {
        cwd,
        ...(at === 'standard input' && { stdin: bytes }),
      });
      expect([code, stderr]).toEqual([2, `${at}: expected a text in UTF-8, got other bytes\n`]);
    }
  });
});

it.each([
  [[''], undefined, 'one'],
  [['--prompt', ''], undefined, 'one'],
  [['--prompt-file', 'empty.txt'], undefined, 'file empty.txt'],
  [[], '', 'one'],
  [['-'], '\n', 'one'],
])('an empty text is no prompt: %j', async (args, stdin, got) => {
  writeFileSync(join(cwd, 'empty.txt'), '');
  const { code, stderr } = await kv(['run', '--model', plain, ...args], {
    cwd,
    ...(stdin !== undefined && { stdin: Buffer.from(stdin) }),
  });
  expect([code, stderr]).toEqual([
    2,
    expect.stringMatching(
      `^prompt: expected a text, got an empty ${got}: give it by one of a prompt in quotes `,
    ) as string,
  ]);
});

it('a text is a turn of the chat template where there is one, ids and --raw are none', async () => {
  const turn = Buffer.byteLength('[user] Hello');
  writeFileSync(join(cwd, 'ids.json'), '[0, 74, 103]');
  expect([
    await read(templated, ['Hello']),
    await read(templated, ['Hello', '--chat']),
    await read(templated, ['Hello', '--raw']),
    await read(templated, ['--prompt-ids', 'ids.json']),
    await read(plain, ['Hello']),
  ]).toEqual([turn, turn, 6, 3, 6]);
});

it('a chat template of a file stands in for the own one of the model, or for none', async () => {
  writeFileSync(join(cwd, 'own.jinja'), '{% for m in messages %}<<{{ m.content }}>>{% endfor %}');
  const turn = Buffer.byteLength('<<Hello>>');
  expect([
    await read(templated, ['Hello', '--chat-template', 'own.jinja']),
    await read(plain, ['Hello', '--chat-template', 'own.jinja']),
    await read(plain, ['Hello', '--chat-template', 'own.jinja', '--raw']),
  ]).toEqual([turn, turn, 6]);
  writeFileSync(join(cwd, 'bad.jinja'), '{% for');
  for (const [file, sentence] of [
    ['bad.jinja', '--chat-template: the chat template cannot be rendered'],
    ['none.jinja', 'none.jinja: cannot be read'],
  ])
    expect((await kv(['run', '--model', plain, 'Hello', '--chat-template', file!], { cwd })).stderr).toContain(
      sentence,
    );
});

it('variables reach the chat template, as pairs and as JSON, and nothing else takes them', async () => {
  const own = writeTinyModel(join(cwd, 'thinking'));
  writeFileSync(
    join(own, 'chat_template.jinja'),
    '{% for m in messages %}{{ m.content }}{% endfor %}{% if not enable_thinking %}<no>{% endif %}{{ effort }}',
  );
  const without = await read(own, ['Hello']);
  for (const [given, more] of [
    ['enable_thinking=true', -4],
    ['enable_thinking=true,effort=low', -1],
    ['{"enable_thinking":false,"effort":12}', 2],
  ] as const)
    expect((await read(own, ['Hello', '--chat-template-kwargs', given])) - without, given).toBe(more);
  for (const [args, sentence] of [
    [
      ['--chat-template-kwargs', 'tools=1'],
      '--chat-template-kwargs: must leave out tools, which every chat template is given anyway',
    ],
    [
      ['--chat-template-kwargs', 'a=1', '--raw'],
      '--chat-template-kwargs: expected a turn of a model with a chat template, got --raw',
    ],
    [
      ['--chat-template-kwargs', 'a=1', '--model', plain],
      '--chat-template-kwargs: expected a turn of a model with a chat template, got ',
    ],
  ] as const) {
    const { code, stderr } = await kv(['run', 'Hello', '--model', own, ...args], { cwd });
    expect([code, stderr.startsWith(sentence)], stderr).toEqual([2, true]);
  }
});

it.each([
  [['one', '--prompt', 'two'], 'prompt: expected exactly one of a prompt in quotes'],
  [['-', '--prompt-file', 'p.txt'], 'prompt: expected exactly one of a prompt in quotes'],
  [['one', '--document', 'p.txt', '--question', 'x'], 'prompt: expected exactly one of a prompt in quotes'],
  [['one', '--chat', '--raw'], '--raw: expected --raw or --chat, got both'],
  [['one', '--detail'], '--detail: expected --why too, got none'],
])('%j is one sentence', async (args, sentence) => {
  const { code, stdout, stderr } = await kv(['run', '--model', plain, ...args], { cwd, lines: ['piped'] });
  expect([code, stdout, stderr.startsWith(sentence)], stderr).toEqual([2, '', true]);
});

describe('a line on stderr', () => {
  const run = (...args: string[]): Promise<Ran> => kv(['run', ...args], { cwd });
  it('says that the embedded model finds codes alone, where its answer has none of the prompt', async () => {
    const line =
      'the embedded model is trained only to find codes that stand in a prompt; for language: --model HuggingFaceTB/SmolLM2-135M-Instruct (269 MB)';
    expect((await run('What is the capital of France?', '--max-new-tokens', '8')).stderr).toContain(line);
    expect((await run(CODE, '--stop', '.')).stderr).not.toContain('trained');
    expect((await run('hello', '--max-new-tokens', '4', '--quiet')).stderr).toBe('');
    expect((await run('hello', '--max-new-tokens', '4', '--json')).stderr).toBe('');
  });
  it('says why an answer is empty', async () => {
    const { code, stdout, stderr } = await run(CODE, '--stop', ' X');
    expect([code, stdout]).toEqual([0, '\n']);
    expect(stderr).toContain('\nthe answer is empty: a text of --stop ended it after 1 token\n');
  });
});
