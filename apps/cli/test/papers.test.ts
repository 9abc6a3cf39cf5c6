import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { planText } from '@kv/evaluation';
import { describe, expect, it } from 'vitest';
import { folder, kv } from './terminal.ts';

describe('kv papers', () => {
  it('prints the plan as it was committed', async () => {
    expect((await kv(['papers', '--list', '--json'])).stdout).toBe(planText('1'));
    expect((await kv(['papers', '--model', 'some/model', '--list', '--json'])).stdout).toBe(planText('3'));
  });
  it('lists the plan, refuses what it does not have, and runs nothing for an excused row', async () => {
    const listed = await kv(['papers', '--list', '--paper', 'PrHS']);
    expect(listed.stdout.replace(/\u001b\[\d+m/g, '')).toMatch(
      /^cis-hshare {2}PrHS: CIS against HShare\n {2}promise: .*\n/,
    );
    expect(listed.stdout).not.toContain('ta-credentials');
    expect(await kv(['papers', '--row', 'ta-credential'])).toEqual({
      code: 2,
      stdout: '',
      stderr: "--row: expected a row of the plan (did you mean ta-credentials?), got 'ta-credential'\n",
    });
    const cwd = folder(),
      excused = await kv(['papers', '--row', 'cis-cosine', '--engine', 'wasm'], { cwd });
    expect([excused.code, existsSync(join(cwd, '.kv'))]).toEqual([0, false]);
    expect(excused.stdout).toContain('cis-cosine: piece missing');
  });
});
