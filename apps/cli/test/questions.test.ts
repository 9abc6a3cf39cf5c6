import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';
import { CONTEXT, writeTinyModel } from '@kv/model-testing';

let cwd: string, model: string;
const DOCUMENT =
  'It was a bright cold day in April, and the clocks were striking thirteen. Winston slipped quickly through the glass doors.';
beforeAll(() => {
  cwd = folder();
  model = writeTinyModel(join(cwd, 'tiny'));
  writeFileSync(join(cwd, 'story.txt'), DOCUMENT);
  writeFileSync(join(cwd, 'long.txt'), DOCUMENT.repeat(5));
});
const run = (...args: string[]): ReturnType<typeof kv> => kv(['run', '--model', model, ...args], { cwd });
const KEEP = ['--policy', 'snapkv(window=8)', '--budget', '25%', '--max-new-tokens', '6'];
interface Answers {
  answers: { question: string; text: string; tokens: number[] }[];
  kept: number[][][];
  policy: string;
}
const json = async (...args: string[]): Promise<Answers> =>
  JSON.parse((await run(...args, '--json')).stdout) as Answers;

describe('kv run --document', () => {
  it('answers each question as if it were the only one, over one compacted cache', async () => {
    const both = await json('--document', 'story.txt', '--question', ' Who?', '--question', ' When?', ...KEEP);
    expect(both.answers.map(({ question }) => question)).toEqual([' Who?', ' When?']);
    expect(both.kept.flat().every((row) => row.length === Math.floor((DOCUMENT.length + 1) / 4))).toBe(true);
    expect(both.policy).toBe('snapkv(window=8) ∘ topK');
    for (const [i, question] of [' Who?', ' When?'].entries())
      expect((await json('--document', 'story.txt', '--question', question, ...KEEP)).answers[0]).toEqual(
        both.answers[i],
      );
    const whole = await json('--document', 'story.txt', '--question', ' Who?', '--max-new-tokens', '6');
    expect(whole.answers[0].tokens).toEqual(
      (
        JSON.parse((await run('--prompt', `${DOCUMENT} Who?`, '--max-new-tokens', '6', '--json')).stdout) as {
          tokens: number[];
        }
      ).tokens,
    );
  });
  it('saves the compacted cache and answers over it later', async () => {
    const saved = await run('--document', 'story.txt', '--save-cache', 'story.safetensors', ...KEEP);
    expect([saved.code, saved.stdout]).toEqual([0, '']);
    const direct = await run('--document', 'story.txt', '--question', ' Who?', '--question', ' When?', ...KEEP);
    expect(
      (
        await run(
          '--load-cache',
          'story.safetensors',
          '--question',
          ' Who?',
          '--question',
          ' When?',
          '--max-new-tokens',
          '6',
        )
      ).stdout,
    ).toBe(direct.stdout);
    expect(direct.stdout).toMatch(/^Who\?\n[^]*\n\nWhen\?\n[^]*\n$/);
  });
  it("reads a document that is longer than the model's context in blocks", async () => {
    const { kept } = await json(
      '--document',
      'long.txt',
      '--question',
      ' Who?',
      '--policy',
      'streaming',
      '--budget',
      '40',
      '--block',
      '64',
      '--max-new-tokens',
      '3',
    );
    expect(kept[0][0].at(-1)).toBe(5 * DOCUMENT.length);
    expect(5 * DOCUMENT.length).toBeGreaterThan(2 * CONTEXT);
    expect(
      (
        await run(
          '--prompt-file',
          'long.txt',
          '--policy',
          'streaming',
          '--budget',
          '40',
          '--block',
          '64',
          '--max-new-tokens',
          '3',
        )
      ).code,
    ).toBe(0);
  });
  it('refuses a file that is cut, of another model, or no cache', async () => {
    await run('--document', 'story.txt', '--save-cache', 'cut.safetensors', ...KEEP);
    writeFileSync(join(cwd, 'cut.safetensors'), readFileSync(join(cwd, 'cut.safetensors')).subarray(0, -1));
    for (const [file, sentence] of [
      ['cut.safetensors', /expected \d+ bytes, got \d+: the file is cut$/],
      ['tiny/model.safetensors', /expected a saved cache with a header of JSON, got another file$/],
      ['story.txt', /expected a saved cache, got 122 bytes/],
    ] as const) {
      const { code, stdout, stderr } = await run('--load-cache', file, '--question', 'x');
      expect([code, stdout]).toEqual([2, '']);
      expect(stderr.trim()).toMatch(sentence);
    }
    expect(
      (await run('--load-cache', 'cut.safetensors', '--question', 'x', '--save-cache', 'no/such/folder')).code,
    ).toBe(2);
    expect(existsSync(join(cwd, 'no'))).toBe(false);
  });
  it.each([
    [['--question', 'x'], /^--question: expected --document or --load-cache too, got neither$/],
    [['--prompt', 'y', '--save-cache', 'x'], /^--save-cache: expected --document or --load-cache too, got neither$/],
    [['--document', 'story.txt'], /^--question: expected at least one question, or --save-cache, got neither$/],
    [
      ['--document', 'story.txt', '--prompt', 'x', '--question', 'y'],
      /^prompt: expected exactly one of a prompt in quotes /,
    ],
    [['--document', 'none.txt', '--question', 'y'], /^none\.txt: cannot be read \(ENOENT\)$/],
    [['--document', 'long.txt', '--question', 'y'], /^prompt: must fit the model's context of 256 tokens, got \d+$/],
    [
      ['--document', 'story.txt', '--question', 'y', '--policy', 'knorm'],
      /^--budget: '.*' evicts, so a budget is expected/,
    ],
  ])('%j is one sentence', async (args, sentence) => {
    const { code, stdout, stderr } = await run(...args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.trim()).toMatch(sentence);
  });
});
