import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { start } from './built.ts';
import { needles } from './needles.ts';
import { folder } from './terminal.ts';

it('chooses, prints answer, picture, table and lines, writes a report and a state, and goes on from it', async () => {
  const cwd = folder();
  mkdirSync(join(cwd, 'mine'));
  writeFileSync(join(cwd, 'mine/a.jsonl'), needles(4));
  const args = [
    'choose',
    '--prompts',
    'mine',
    '--budget',
    '25%',
    '--candidates',
    '3',
    '--minutes',
    '5',
    '--workers',
    '2',
  ];
  const first = await start([...args, '--html', 'x.html', '--state', 's.json'], cwd).ended;
  expect(first, first.stderr).toMatchObject({ code: 0 });
  const { stdout: text } = first;
  expect(text).toMatch(/^The best policy is taFast with 25 % of the slots: /);
  for (const line of text.split('\n'))
    if (!/^ {2}(kv|await|const) /.test(line)) expect(line.length, line).toBeLessThanOrEqual(80); // lines to copy are whole
  expect(text.match(/^[^#]*\|.*#/m)).not.toBeNull();
  expect(text).toContain('  kv serve --model embedded --policy taFast --budget 25%\n');
  const html = readFileSync(join(cwd, 'x.html'), 'utf8');
  expect(html).toContain('The best policy is taFast with 25 % of the slots: ');
  expect(html).not.toMatch(/<script|https?:/);
  expect(html).toMatch(/kv choose .*--prompts mine --budget 25% .*--minutes 5 /);
  const again = await start([...args, '--state', 's.json', '--json'], cwd).ended,
    choice = JSON.parse(again.stdout) as { rows: { policy: string; prompts: number }[]; chosen: number; done: boolean };
  expect(choice).toMatchObject({ chosen: 0, done: true, rows: [{ policy: 'taFast', prompts: 2 }, {}, {}] });
}, 60_000);
