import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { writeTinyModel } from '@kv/model-testing';
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
    '--out',
    'trace.safetensors',
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/^Position 5, ".*": left (\d+) of \1 KV heads\n/);
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
  const { stdout } = await trace('--policy', 'streaming(sinks=2)', '--budget', '12', '--why', 'of');
  const [, first, last] =
    /^"of" stands 2 times, from the positions (\d+), (\d+) on; this is the last/.exec(stdout) ?? [];
  expect(Number(first)).toBeLessThan(Number(last));
  expect(stdout).toContain(`\nPosition ${last}, `);
  expect(stdout).not.toContain(`\nPosition ${first}, `);
});
test('kv run says the same behind its text', async () => {
  const args = ['--policy', 'streaming(sinks=2)', '--budget', '12', '--why', '5'],
    { stdout } = await kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '3', ...args], { cwd });
  expect(stdout).toContain((await trace(...args)).stdout);
});
test.each([
  [
    ['--policy', 'streaming', '--budget', '8'],
    '--out: expected a file to write, or --why with a token to explain, got neither',
  ],
  [['--policy', 'full', '--why', '1'], "--policy: expected a policy that evicts, got 'full'"],
  [
    ['--policy', 'streaming', '--why', '1'],
    "--budget: expected a number of slots or a share such as 25%, since 'streaming ∘ topK' evicts, got none",
  ],
  [
    ['--policy', 'streaming', '--budget', '8', '--why', '1', '--prompt-file', 'p.txt'],
    'prompt: expected exactly one of --prompt and --prompt-file\n',
  ],
  [['--policy', 'streaming', '--budget', '8', '--why', 'zzz'], 'or a text of the run, got "zzz"'],
])('%j is refused in one sentence', async (args, sentence) => {
  const { stderr, code } = await trace(...args);
  expect(code).toBe(2);
  expect(stderr).toContain(sentence);
});
