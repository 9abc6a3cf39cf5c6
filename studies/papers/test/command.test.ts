import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { folder, ran } from '../../../apps/cli/test/terminal.ts';
import type { Ran, Run } from '../../../apps/cli/test/terminal.ts';
import { runProgram } from '../../../apps/cli/src/program.ts';
import { PAPERS } from '../src/command.ts';
import { planText } from '../src/plans.ts';

const study = (args: readonly string[], how?: Run): Promise<Ran> =>
  ran((terminal) => runProgram(PAPERS, args, terminal), how);

describe('the study papers', () => {
  it('prints the plan as it was committed', async () => {
    expect((await study(['papers', '--list', '--json'])).stdout).toBe(planText('1'));
    expect((await study(['papers', '--model', 'some/model', '--list', '--json'])).stdout).toBe(planText('3'));
  });
  it('lists the plan, refuses what it does not have, and runs nothing for an excused row', async () => {
    const listed = await study(['papers', '--list', '--paper', 'PrHS']);
    expect(listed.stdout.replace(/\u001b\[\d+m/g, '')).toMatch(
      /^cis-hshare {2}PrHS: CIS against HShare\n {2}promise: .*\n/,
    );
    expect(listed.stdout).not.toContain('ta-credentials');
    expect(await study(['papers', '--row', 'ta-credential'])).toEqual({
      code: 2,
      stdout: '',
      stderr: "--row: expected a row of the plan (did you mean ta-credentials?), got 'ta-credential'\n",
    });
    const cwd = folder(),
      excused = await study(['papers', '--row', 'cis-cosine', '--engine', 'f32'], { cwd });
    expect([excused.code, existsSync(join(cwd, '.kv'))]).toEqual([0, false]);
    expect(excused.stdout).toContain('cis-cosine: piece missing');
  });
});

const bin = fileURLToPath(new URL('../../dist/bin.js', import.meta.url));
const run = (args: readonly string[], cwd: string) =>
  spawnSync(process.execPath, [bin, ...args], { cwd, encoding: 'utf8' });

/** `npm test` builds it first. */
describe.runIf(existsSync(join(bin, '../worker.js')))('the built study', () => {
  it('measures a row, from prompts to table and files', () => {
    const cwd = folder(),
      args = ['--row', 'psaw-etf', '--n', '3', '--seed', '1', '--engine', 'f32', '--out', 'out'];
    const first = run(args, cwd);
    expect([first.status, first.stdout]).toEqual([
      0,
      expect.stringMatching(
        /development: not the plan's prompts\n.*\npsaw-etf +6\.12; 6\.16 +[+-][\d.]+ \[[+-][\d.]+, [+-][\d.]+\] +3, screening +(?:held|not|undecided)\n/,
      ),
    ]);
    const written = JSON.parse(readFileSync(join(cwd, 'out/results-embedded.json'), 'utf8')) as {
      command: string;
      outcomes: { row: string; n: number; measured: { n: number }[] }[];
    };
    expect(written).toMatchObject({
      command: 'npm run -s study -- papers --row psaw-etf --n 3 --seed 1',
      outcomes: [{ row: 'psaw-etf', n: 3, measured: [{ n: 3 }] }],
    });
    expect(readFileSync(join(cwd, 'out/results-embedded.md'), 'utf8')).toContain(
      '| PrHS | PSAW; ETF alone | 6.12; 6.16 |',
    );
    const again = run(args, cwd);
    expect(again.stdout).toBe(first.stdout);
    expect(again.stderr).toContain('papers: all results are in .kv/papers-');
  }, 60_000);
});
