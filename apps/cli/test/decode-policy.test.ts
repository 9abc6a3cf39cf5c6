import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { kv } from './terminal.ts';
import { writeTinyModel } from '@kv/model-testing';

const cwd = mkdtempSync(join(tmpdir(), 'kv-decode-')),
  model = writeTinyModel(join(cwd, 'model')),
  PROMPT = 'a text of some length, of which most goes';
const run = (...args: string[]): ReturnType<typeof kv> =>
  kv(['run', '--model', model, '--prompt', PROMPT, '--max-new-tokens', '9', ...args], { cwd });
interface Said {
  readonly kept: number[][][];
  readonly policy: string;
  readonly decodePolicy?: string;
}
const json = async (...args: string[]): Promise<Said> => JSON.parse((await run(...args, '--json')).stdout) as Said;

test('one policy reads the prompt, another generates, and a share is of all tokens so far', async () => {
  const whole = (await json()).kept.flat()[0].length,
    both = await json(
      '--policy',
      'streaming(sinks=2)',
      '--budget',
      '12',
      '--decode-policy',
      'keydiff',
      '--decode-budget',
      '8',
      '--every',
      '4',
    );
  expect(both).toMatchObject({ policy: 'streaming(sinks=2) ∘ topK', decodePolicy: 'keydiff ∘ topK' });
  expect(both.kept.flat().map((set) => set.length)).toEqual(both.kept.flat().map(() => 8));
  const share = await json('--decode-policy', 'streaming(sinks=2)', '--decode-budget', '50%', '--every', '4');
  expect(share).toMatchObject({ policy: 'full', decodePolicy: 'streaming(sinks=2) ∘ topK' });
  expect(share.kept.flat()[0]).toHaveLength(Math.floor(whole / 2));
  expect(await json('--policy', 'streaming', '--budget', '12')).not.toHaveProperty('decodePolicy');
});
test.each([
  [
    ['--decode-policy', 'keydiff', '--decode-budget', '8'],
    "--every: 'keydiff ∘ topK' evicts while tokens are generated, so a number of tokens between two events is expected",
  ],
  [
    ['--decode-policy', 'keydiff', '--every', '4'],
    "--decode-budget: 'keydiff ∘ topK' evicts, so a budget is expected: a number of slots, a share such as '25%', or bytes such as '64MiB'",
  ],
  [['--decode-budget', '8', '--every', '4'], '--decode-budget: expected a policy that evicts, got none'],
  [['--decode-policy', 'keydif'], 'keydif'],
])('%j is refused in one sentence', async (args, sentence) => {
  const { stderr, code } = await run(...args);
  expect(stderr).toContain(sentence);
  expect(code).not.toBe(0);
});
test('a document is read and answered under one policy', async () => {
  writeFileSync(join(cwd, 'facts.txt'), PROMPT);
  expect(
    (
      await kv(
        ['run', '--model', model, '--document', 'facts.txt', '--question', ' What?', '--decode-policy', 'quest'],
        { cwd },
      )
    ).stderr,
  ).toContain('--decode-policy: expected a prompt, got a document');
});
