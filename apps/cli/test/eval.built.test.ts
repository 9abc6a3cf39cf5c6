import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sweepFields } from '@kv/evaluation';
import { describe, expect, it } from 'vitest';
import { fittedHelp } from '../src/help.ts';
import { ON, start } from './built.ts';
import { folder, kv } from './terminal.ts';
import type { Ran } from './terminal.ts';

const docs = readFileSync(new URL('../../../docs/command-line.md', import.meta.url), 'utf8');

describe('kv eval', () => {
  it('shows in its help and in docs/command-line.md the same fields and the same sweep, which runs', async () => {
    const [, example = ''] = /```json\n([^]*?)\n```/.exec(docs) ?? [],
      cwd = folder(),
      { stdout: help } = await kv(['eval', '--help'], { columns: 120 });
    expect(docs).toContain(`\`\`\`text\n${fittedHelp(sweepFields, 100)}\n\`\`\``);
    expect(help).toContain(example);
    expect(help).toContain(fittedHelp(sweepFields, 120));
    writeFileSync(join(cwd, 'sweep.json'), example);
    const run = (...more: readonly string[]): Promise<Ran> => start(['eval', 'sweep.json', ...ON, ...more], cwd).ended;
    const { code, stdout, stderr } = await run('--csv', 'rows.csv', '--kvpress', 'out');
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('expected')]);
    const rows = readFileSync(join(cwd, 'rows.csv'), 'utf8').trim().split('\r\n');
    expect(rows).toHaveLength(1 + 2 * 7);
    expect(stdout).toMatch(
      /^model embedded, unparsed 0\.0 %, n 2\ntask +policy +budget +right +95% +mean +mean +peak\n/,
    );
    expect(stdout).toMatch(/^perplexity@25 +full +all +ppl \d.*\n6$/m); // its last digit on the next line
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(80);
    const printed = await run('--json');
    expect(JSON.parse(printed.stdout)).toMatchObject({ format: 1, rows: { length: 2 * 7 } });
    expect(await run('--json', 'out.json')).toMatchObject({
      code: 2,
      stdout: '',
      stderr:
        'eval: expected one sweep, got sweep.json out.json: --json prints, --out FILE writes the same to a file\n',
    });
    const again = await run('--compare-with', 'out');
    expect([again.code, again.stdout.match(/kvpress: /g)?.length]).toEqual([0, 7]);
    const contrasts = [{ policy: 'keydiff', against: 'full' }],
      models = [{ name: 'toy', model: 'embedded' }];
    writeFileSync(join(cwd, 'sweep.json'), JSON.stringify({ ...(JSON.parse(example) as object), models, contrasts }));
    const declared = await run('--out', 'out.json');
    expect([declared.code, declared.stderr]).toEqual([0, '']); // nothing is run again
    expect(declared.stdout.replace(/\s+/g, ' ')).toMatch(
      /keydiff at 96 slots on perplexity@256 on toy: \w+ (?:than|against) full, times \d\.\d{3} \[.*\(screening, n = 2\)\. /,
    );
    expect(JSON.parse(readFileSync(join(cwd, 'out.json'), 'utf8'))).toMatchObject({
      sweep: { models, policies: expect.arrayContaining(['keydiff']) as unknown, contrasts },
      code: expect.arrayContaining([
        expect.stringMatching(/^@kv\/models@[\d.]+\+[0-9a-f]{16}$/),
        expect.stringMatching(/^@kv\/scorers-keys@[\d.]+\+[0-9a-f]{16}$/),
      ]) as unknown,
      contrasts: Array(4).fill({
        policy: 'keydiff',
        against: { policy: 'full' },
        model: 'toy',
        problems: 2,
        evidence: 'screening',
      }),
    });
    writeFileSync(join(cwd, 'out/ruler__448__embedded__no_press__0.00__query_aware/metrics.json'), '{}');
    expect(await run('--compare-with', 'out')).toMatchObject({
      code: 2,
      stdout: '',
      stderr:
        'out/ruler__448__embedded__no_press__0.00__query_aware/metrics.json: expected tasks 1, as predictions.csv has it, got 0\n',
    });
  }, 300_000);
});

it.each([
  [{}, /^problems\.json: expected problems that fit the 4096 tokens of embedded, got \d+ and 8 /],
  [{ models: ['nowhere'] }, /nowhere/],
  [{ tasks: ['none.json'] }, /^none\.json: expected a file that can be read, got ENOENT\n$/],
  [{ part: 'dev', tasks: ['one.json'] }, /^one\.json: expected ids to choose on, got none\n$/],
])('kv eval refuses what it cannot ask before it tells anything else: %j', async (change, sentence) => {
  const cwd = folder(),
    problem = { id: 'a', question: '?', answers: ['x'], grader: 'exact', maxNewTokens: 8 };
  writeFileSync(join(cwd, 'problems.json'), JSON.stringify([{ ...problem, context: 'word '.repeat(5000) }]));
  writeFileSync(join(cwd, 'one.json'), JSON.stringify([{ ...problem, context: 'A word.' }]));
  const sweep = { models: ['embedded'], policies: ['knorm'], tasks: ['problems.json'], budgets: [8] };
  writeFileSync(join(cwd, 'sweep.json'), JSON.stringify({ ...sweep, ...change }));
  const { code, stdout, stderr } = await kv(['eval', 'sweep.json', '--engine', 'f32'], { cwd });
  expect([code, stdout, stderr.split('\n').length]).toEqual([2, '', 2]);
  expect(stderr).toMatch(sentence);
});
