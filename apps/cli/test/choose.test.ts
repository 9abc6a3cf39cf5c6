import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';

const WORDS = 'the river was wide and a boy told his old friend that rain would come before they saw any light'.split(' ');
/** Texts with a code in each, and the question after it. */
const row = (i: number): string => {
  const code = `XK${7 + i}M${9 + i}P2Q`,
    words = Array.from({ length: 60 }, (_, w) => WORDS[(w * (i + 3)) % WORDS.length]);
  return JSON.stringify({
    context: `${words.slice(0, 10 + 5 * i).join(' ')}. The secret code is: ${code}. ${words.join(' ')}. `,
    question: 'The secret code is:',
    answer: code,
    maxNewTokens: 10,
  });
};
const rows = (count: number): string => Array.from({ length: count }, (_, i) => row(i)).join('\n');

it('chooses in one thread, prints answer, picture, table and lines, writes a report and a state, and goes on from it', async () => {
  const cwd = folder();
  mkdirSync(join(cwd, 'mine'));
  writeFileSync(join(cwd, 'mine/a.jsonl'), rows(6));
  const args = ['choose', '--prompts', 'mine', '--budget', '25%', '--policies', '4', '--minutes', '5', '--workers', '1'];
  const first = await kv([...args, '--html', 'x.html', '--state', 's.json'], { cwd, columns: 80 });
  expect(first).toMatchObject({ code: 0 });
  const text = first.stdout.replace(/\u001b\[\d+m/g, '');
  expect(text).toMatch(/^Keep taFast at 25%: /);
  for (const line of text.split('\n'))
    if (!/^ {2}(kv|await) /.test(line)) expect(line.length, line).toBeLessThanOrEqual(80); // lines to copy are whole
  expect(text.match(/^[^#]*\|.*#/m)).not.toBeNull();
  expect(text).toContain('  kv serve --model embedded --policy taFast --budget 25%\n');
  const html = readFileSync(join(cwd, 'x.html'), 'utf8');
  expect(html).toContain('Keep taFast at 25%: ');
  expect(html).not.toMatch(/<script|https?:/);
  const again = await kv([...args, '--state', 's.json', '--json'], { cwd }),
    choice = JSON.parse(again.stdout) as { rows: { policy: string; prompts: number }[]; chosen: number; done: boolean };
  expect(choice).toMatchObject({ chosen: 0, done: true, rows: [{ policy: 'taFast', prompts: 3 }, {}, {}, {}] });
  expect(existsSync(join(cwd, '.kv'))).toBe(false);
}, 60_000);

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
  writeFileSync(join(cwd, 'one.jsonl'), rows(1));
  writeFileSync(join(cwd, 'two.jsonl'), rows(2));
  writeFileSync(join(cwd, 'broken.json'), '{');
  const { code, stdout, stderr } = await kv(['choose', ...args, '--workers', '1'], { cwd });
  expect([code, stdout]).toEqual([2, '']);
  expect(stderr).toContain(said);
  expect(stderr.trim().split('\n')).toHaveLength(1);
});
