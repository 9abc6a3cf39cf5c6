import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { needles } from './needles.ts';
import { folder, kv } from './terminal.ts';

it.each([
  [['--budget', '25%'], 'none'],
  [['--prompts', 'no.jsonl'], 'no.jsonl'],
  [['--prompts', 'empty'], 'expected a folder with files'],
  [['--prompts', 'one.jsonl', '--budget', '25%', '--lose', '1%'], 'expected one of --budget, --memory and --lose'],
  [['--prompts', 'one.jsonl', '--lose', 'much'], '--lose'],
  [['--prompts', 'one.jsonl', '--memory', '64'], '--memory'],
  [['--prompts', 'one.jsonl', '--budget', '25%'], 'one'],
  [['--prompts', 'two.jsonl', '--budget', '1B'], 'hold no slot'],
  [['--prompts', 'two.jsonl', '--state', 'broken.json'], 'broken.json'],
  [['--prompts', 'two.jsonl', '--html', 'empty'], 'expected a file, got a folder'],
])('%j is one sentence', async (args, said) => {
  const cwd = folder();
  mkdirSync(join(cwd, 'empty'));
  writeFileSync(join(cwd, 'one.jsonl'), needles(1));
  writeFileSync(join(cwd, 'two.jsonl'), needles(2));
  writeFileSync(join(cwd, 'broken.json'), '{');
  const { code, stdout, stderr } = await kv(['choose', ...args, '--workers', '1'], { cwd });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(said);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});
