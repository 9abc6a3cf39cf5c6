import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { kv } from './terminal.ts';

const cwd = mkdtempSync(join(tmpdir(), 'kv-trace-')),
  model = writeTinyModel(join(cwd, 'model')),
  PROMPT = 'a text of some length, of which most goes';
const trace = (...args: string[]): ReturnType<typeof kv> =>
  kv(['trace', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', ...args], { cwd });

test('scores, masks and kept sets go to a file, and a token is told why it left', async () => {
  const { stdout, code } = await trace(
    '--policy',
    'streaming(sinks=2)',
    '--budget',
    '12',
    '--why',
    '5',
    '--why',
    'goes',
    '--detail',
    '--out',
    'trace.safetensors',
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(
    /^"x": 1 token, position 5, gone from 4 of 4 places \(KV heads\); ranked 37 of 40 by score, with room for 10\nPosition 5, "x": left 4 of 4 KV heads\n/,
  );
  expect(stdout).toMatch(
    /\n"goes": 4 tokens, positions 38 to 41, gone from 0 of 16 places \(tokens x KV heads\); ranked/,
  );
  expect(stdout).toMatch(
    /left after the prompt: score 5 is number \d+ of \d+ unforced slots, with room for 10; the lowest/,
  );
  expect(stdout).toMatch(/: left 0 of \d+ KV heads\n {2}layer 0, KV head 0: stays: score/);
  expect(stdout).toContain('are in trace.safetensors');
  const file = readFileSync(join(cwd, 'trace.safetensors'));
  expect(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))).toString()).toContain(
    '"event.0.layer.0.0.streaming.scores"',
  );
});
test('a text that stands several times is told of where it stands last', async () => {
  const { stdout } = await trace('--policy', 'streaming(sinks=2)', '--budget', '12', '--why', 'of', '--detail');
  const [, first, last, told] =
    /^"of" stands 2 times, from the positions (\d+), (\d+) on; this is position (\d+), name/.exec(stdout) ?? [];
  expect(told).toBe(last);
  expect(Number(first)).toBeLessThan(Number(last));
  expect(stdout).toContain(`\nPosition ${last}, `);
  expect(stdout).not.toContain(`\nPosition ${first}, `);
});
test('a table says how much is held of each span that the policy cuts, and kv run --json the same', async () => {
  const args = ['--policy', 'snapkv(window=4) | spans(at=10 20) | quota', '--budget', '12'],
    { stdout } = await trace(...args),
    json = await kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', '--json', ...args], { cwd }),
    { spans } = JSON.parse(json.stdout) as {
      spans: { positions: [number, number]; tokens: { fed: number; dropped: number }; share: number }[];
    };
  expect(spans.map(({ positions }) => positions)).toEqual([
    [0, 10],
    [10, 20],
    [20, 42],
    [42, 44],
  ]);
  const table = stdout.slice(stdout.indexOf('positions'));
  for (const { positions, tokens, share } of spans)
    expect(table).toMatch(
      new RegExp(
        `${positions[0]} to ${positions[1] - 1} +${tokens.fed} +${Math.round(100 * share)} % +${tokens.dropped} `,
      ),
    );
  expect((await trace('--policy', 'streaming(sinks=2)', '--budget', '12')).stdout).not.toContain('positions');
});
test('kv run prints the same after its text', async () => {
  const args = ['--policy', 'streaming(sinks=2)', '--budget', '12', '--why', '5'],
    { stdout } = await kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', ...args], { cwd });
  expect(stdout).toContain((await trace(...args)).stdout);
});
test('kv run tells of where a text stands last in what an eviction saw, of a document too', async () => {
  const code = 'The secret code is: XK7M9P2Q. The secret code is:',
    ways = [
      ['--prompt', code, '--max-new-tokens', '9'],
      ['--document', 'code.txt', '--question', ' The secret code is:', '--max-new-tokens', '9'],
    ];
  writeFileSync(join(cwd, 'code.txt'), code);
  for (const way of ways) {
    const { stdout, stderr } = await kv(['run', ...way, '--policy', 'taFast', '--budget', '75%', '--why', 'XK7M9P2Q'], {
      cwd,
    });
    if (way[0] === '--prompt') expect(stdout, stderr).toMatch(/^"XK7M9P2Q" stands 2 times, .* this is position \d+, /m);
    expect(stdout, stderr).toMatch(/^" ?XK7M9P2Q": \d tokens, positions \d+ to \d+, gone from 0 of \d+ places/m);
  }
});
test.each(['streaming(sinks=2)', 'snapkv(window=4) | caote | topK'])(
  '%s: what is protected is named',
  async (policy) => {
    const args = ['--policy', policy, '--budget', '30', '--protect', 'some length', '--why', 'some length', '--detail'],
      { stdout } = await kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', ...args], { cwd });
    expect(stdout).toMatch(/, gone from 0 of (\d+) places .*; forced in \1 by protect$/m);
    expect(stdout).toMatch(/stays: protect forces it/);
  },
);
test('of a text one line is said, whatever it is of; the reasons of its tokens on demand', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 0, max: PROMPT.length - 1 }),
      fc.integer({ min: 1, max: 8 }),
      fc.constantFrom('streaming(sinks=2)', 'h2o', 'snapkv(window=4)'),
      async (from, length, policy) => {
        const text = PROMPT.slice(from, from + length),
          { code, stdout } = await trace('--policy', policy, '--budget', '12', '--why', text),
          lines = stdout.trimEnd().split('\n'),
          [, gone, of] = /gone from (\d+) of (\d+) places/.exec(stdout) ?? [];
        expect([code, lines.length], stdout).toEqual([0, lines[0]?.includes(' stands ') ? 2 : 1]);
        expect(Number(gone)).toBeLessThanOrEqual(Number(of));
      },
    ),
    { numRuns: 12 },
  );
});
test('without a question, each layer says what it kept and of which part', async () => {
  const { code, stdout } = await trace('--policy', 'streaming(sinks=2)', '--budget', '12');
  expect([code, stdout]).toEqual([
    0,
    [
      'layer  events  slots  kept  of first third  of second third  of last third',
      ...[0, 1].map((layer) => `    ${layer}       1     42    12            14 %              0 %           71 %`),
      '',
    ].join('\n'),
  ]);
});
test.each([
  [['--policy', 'streaming', '--budget', '8', '--detail'], '--detail: expected --why too, got none'],
  [['--policy', 'full', '--why', '1'], "--policy: expected a policy that evicts, got 'full'"],
  [
    ['--policy', 'streaming', '--why', '1'],
    "--budget: 'streaming ∘ topK' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'",
  ],
  [
    ['--policy', 'streaming', '--budget', '8', '--why', '1', '--prompt-file', 'p.txt'],
    "prompt: expected exactly one of a prompt in quotes (kv trace 'TEXT'), standard input, --prompt and --prompt-file\n",
  ],
  [['--policy', 'streaming', '--budget', '8', '--why', 'zzz'], 'or a text of the run, got "zzz"'],
])('%j is refused in one sentence', async (args, sentence) => {
  const { stderr, code } = await trace(...args);
  expect(code).toBe(2);
  expect(stderr).toContain(sentence);
});
test('slots at levels: shares of each layer, of a text that stays, and after the answer', async () => {
  const args = ['--policy', 'streaming(sinks=2)|topK|levels(f16=0.25,q8=0.75)', '--engine', 'f32', '--budget', '12'],
    { stdout } = await trace(...args);
  expect(stdout).toMatch(/^ *0 +1 +42 +12 +14 % +0 % +71 % +25 % f16, 75 % q8$/m);
  // an allocator after the selector moves levels between heads
  const moved = await trace(
    '--policy',
    'snapkv(window=4)|topK|adaKV|levels(f16=0.25,q8=0.75)',
    '--engine',
    'f32',
    '--budget',
    '16',
  );
  expect(moved.stdout).toMatch(/ \d+ to \d+ % f16, \d+ to \d+ % q8$/m);
  const why = await trace(...args, '--why', 'goes', '--detail');
  expect(why.stdout).toMatch(/^"goes": .*; what stays is stored in 25 % f16, 75 % q8$/m);
  const run = (...more: string[]) =>
      kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', ...args, ...more], { cwd }),
    { stderr, stdout: out } = await run();
  expect(out + stderr).toContain('kept 12 of 42 tokens a layer and KV head, 25 % f16, 75 % q8, dropped 30 (');
  const { levels } = JSON.parse((await run('--json')).stdout) as { levels: number[][][] };
  // the two sinks and the newest slot
  expect(levels.flat()).toEqual(Array.from({ length: 4 }, () => [1, 1, ...new Array<number>(9).fill(2), 1]));
});
