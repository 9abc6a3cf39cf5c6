import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { progressText } from '../src/commands/choose.ts';
import { needles } from './needles.ts';
import { folder, kv } from './terminal.ts';

it.each([
  [['--budget', '25%'], 'none'],
  [['--prompts', 'no.jsonl'], 'no.jsonl'],
  [['--prompts', 'empty'], 'expected a folder with files'],
  [['--prompts', 'one.jsonl', '--budget', '25%', '--lose', '1%'], 'expected one of --budget, --memory and --lose'],
  [['--prompts', 'one.jsonl', '--lose', '200%'], '--lose: must be a share from 0% to below 100%'],
  [['--prompts', 'one.jsonl', '--memory', '64'], '--memory: must be a number of bytes'],
  [['--prompts', 'one.jsonl', '--memory', '20KB'], '--memory: must be in units of 1,024 bytes'],
  [['--prompts', 'two.jsonl', '--memory', '1B'], '--memory: 1B hold no slot'],
  [['--prompts', 'one.jsonl', '--budget', '25%'], 'one'],
  [['--prompts', 'two.jsonl', '--budget', '1B'], '--budget: 1B hold no slot'],
  [['--prompts', 'bytes.bin', '--budget', '25%'], 'bytes.bin: expected a text in UTF-8'],
  [['--prompts', 'two.jsonl', '--state', 'broken.json'], 'broken.json'],
  [['--prompts', 'two.jsonl', '--html', 'empty'], 'expected a file, got a folder'],
])('%j is one sentence', async (args, said) => {
  const cwd = folder();
  mkdirSync(join(cwd, 'empty'));
  writeFileSync(join(cwd, 'one.jsonl'), needles(1));
  writeFileSync(join(cwd, 'two.jsonl'), needles(2));
  writeFileSync(join(cwd, 'broken.json'), '{');
  writeFileSync(join(cwd, 'bytes.bin'), new Uint8Array([104, 0, 105]));
  const { code, stdout, stderr } = await kv(['choose', ...args, '--workers', '1'], { cwd });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(said);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});

it('a file of a folder that is no text is left out by name; where all are, the folder is refused', async () => {
  const cwd = folder();
  mkdirSync(join(cwd, 'mine'));
  writeFileSync(join(cwd, 'mine/image.png'), new Uint8Array([0x89, 0x50, 0xff]));
  const { code, stderr } = await kv(['choose', '--prompts', 'mine', '--budget', '25%'], { cwd });
  expect(code).toBe(2);
  expect(stderr).toContain('mine/image.png is left out: it is no text in UTF-8\n');
  expect(stderr).toContain('mine: expected a folder with files of text in UTF-8, got none in it');
});

it('a file of a folder that holds no prompts is left out by name; where all are, the folder is refused', async () => {
  const cwd = folder();
  mkdirSync(join(cwd, 'mine'));
  writeFileSync(join(cwd, 'mine/package.json'), JSON.stringify({ name: 'x' }, null, 2));
  writeFileSync(join(cwd, 'mine/empty.txt'), '');
  const refused = await kv(['choose', '--prompts', 'mine', '--budget', '25%', '--workers', '1'], { cwd });
  expect([refused.code, refused.stdout]).toEqual([2, '']);
  expect(refused.stderr).toContain('mine: expected a folder with prompts, got none in its files');
  writeFileSync(join(cwd, 'mine/two.jsonl'), needles(2));
  const { stderr } = await kv(['choose', '--prompts', 'mine', '--budget', '1B', '--workers', '1'], { cwd });
  expect(stderr).toContain('choose: mine/package.json is left out: it holds no prompts\n');
  expect(stderr).toContain('choose: mine/empty.txt is left out: it is empty\n');
  expect(stderr).toContain('--budget: 1B hold no slot');
});

it('help lists the words that options take', async () => {
  const { stdout } = await kv(['choose', '--help'], {}),
    said = stdout.replace(/\s+/g, ' ');
  expect(said).toContain("'kv' or 'transformers.js' or 'node-llama-cpp'");
  expect(said).toMatch(/'after': questions come once slots were dropped; 'inside': they/);
});

it('progress says what is left, and no seconds where there are none', () => {
  const now = { phase: 'choosing', round: 2, rounds: 4, texts: 3, candidates: 61, secondsLeft: 75 } as const;
  expect(progressText(now)).toBe('choosing, round 2 of 4, 61 candidates to ask on 3 texts, about 1 min 15 s left');
  expect(progressText({ ...now, phase: 'confirming', texts: 0, secondsLeft: 0 })).toBe('confirming');
});
