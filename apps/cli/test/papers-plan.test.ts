import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compile } from '@kv/core';
import { describe, expect, it } from 'vitest';
import { digest } from '../src/needle/store.ts';
import { jobsOf, known, specOf } from '../src/papers/jobs.ts';
import type { Result } from '../src/papers/jobs.ts';
import { armKey } from '../src/papers/arms.ts';
import { PLAN, RULES, SEED, TASKS } from '../src/papers/plan.ts';
import { isPlanned, METRICS, PAPERS } from '../src/papers/types.ts';
import type { Metric, Task } from '../src/papers/types.ts';
import { resolvePolicy } from '../src/policy/resolve-policy.ts';
import { repository, sharedText } from './shared.ts';
import { kv } from './terminal.ts';

const planned = PLAN.filter(isPlanned), plan = { seed: SEED, rules: RULES, tasks: TASKS, rows: PLAN };
const study = (name: string): string => readFileSync(join(repository, 'studies/papers', name), 'utf8');
const GIVES: Readonly<Record<Task['kind'], readonly Metric[]>> = {
  needle: ['hit', 'retained'], association: ['hit', 'retained'], credential: ['hit', 'retained'], continuation: ['nll', 'retrievals', 'keyBytes'], prompt: ['nll'],
  ranks: ['spearman', 'spearmanLeast'], costs: ['eventShare', 'stepTime', 'peakBytes'],
};

describe('the plan', () => {
  it('has every row of papers.md, in its order, planned or excused', () => {
    const claims = sharedText('papers.md').split('\n').filter((line) => line.startsWith('| ')).map((line) => line.split('|')[1]!.trim()).filter((cell) => cell !== 'claim' && !/^-+$/.test(cell));
    expect(PLAN.map(({ claim }) => claim)).toEqual(claims);
  });
  it('gives the promise in the words of papers.md', () => {
    const numbers = sharedText('papers.md').split('\n').filter((line) => line.startsWith('| ')).map((line) => line.split('|')[3]!.trim()).filter((cell) => cell !== 'their numbers' && !/^-+$/.test(cell));
    expect(PLAN.map(({ promise }) => promise)).toEqual(numbers);
  });
  it('is valid: known papers, unique ids, an excuse or contrasts with room for a verdict', () => {
    expect(new Set(PLAN.map(({ id }) => id)).size).toBe(PLAN.length);
    for (const row of PLAN) {
      expect(PAPERS).toContain(row.paper);
      if (!isPlanned(row)) { expect(row.excuse.length, row.id).toBeGreaterThan(20); continue; }
      expect(row.contrasts.length, row.id).toBeGreaterThan(0);
      expect(Math.min(row.n.embedded, row.n.real), row.id).toBeGreaterThanOrEqual(2);
      for (const { task, metric, threshold } of row.contrasts) {
        expect(TASKS, row.id).toHaveProperty([task]);
        expect(GIVES[TASKS[task]!.kind], `${row.id}: ${task}`).toContain(metric);
        expect(METRICS[metric].share ? Math.abs(threshold) < 1 : Number.isFinite(threshold), row.id).toBe(true);
      }
    }
  });
  it('names policies that the command line composes, with a budget where they evict', async () => {
    const arms = new Map(planned.flatMap(({ contrasts }) => contrasts.flatMap(({ a, b, task }) => (b ? [a, b] : [a]).map((arm) => [armKey(arm), { arm, task }] as const))));
    for (const { arm, task } of arms.values()) {
      const { evicts } = compile(await resolvePolicy(arm.policy, { cwd: repository }));
      if (evicts && TASKS[task]!.kind !== 'ranks') expect(arm.budget, arm.policy).toBeDefined();
    }
  });
  it('compares arms of one budget, unless one of them is the full cache', () => {
    for (const { id, contrasts } of planned) for (const { a, b } of contrasts) if (b && b.policy !== 'full') expect(a.budget, id).toEqual(b.budget);
  });
  it('stands in studies/papers as it is in the code', async () => {
    const { stdout } = await kv(['papers', '--list', '--json']);
    expect(study('plan.json')).toBe(stdout);
    expect((JSON.parse(stdout) as { digest: string }).digest).toBe(digest(plan));
  });
});

describe('jobs', () => {
  const row = planned.find(({ id }) => id === 'ta-tokenizer')!, other = planned.find(({ id }) => id === 'ta-credentials')!;
  it('ask each prompt of a task once, with the arms of all rows and the full cache', () => {
    const jobs = jobsOf([row, other], 'embedded', 3, new Map());
    expect(jobs.map(({ task, trial }) => `${task}/${trial}`)).toEqual([0, 1, 2].map((t) => `code-agnostic/${t}`).concat([0, 1, 2].map((t) => `code-aware/${t}`)));
    const keys = jobs[0]!.arms.map(armKey);
    expect(new Set(keys).size).toBe(keys.length);
    expect(keys).toEqual(expect.arrayContaining(['full', 'taFast(reach=8,slots=8) @ 16', 'taFast(reach=6,slots=8) @ 16', 'tova @ 16', 'tova @ 64']));
  });
  it('leave out what is known, arm by arm, and take nothing of a task that was another', () => {
    const arm = armKey(row.contrasts[0]!.a), result = (spec: string): Result => ({ task: 'code-agnostic', spec, trial: 1, seconds: 1, numbers: { [arm]: { hit: 1 } } });
    const left = (spec: string): readonly number[] => jobsOf([row], 'embedded', 2, known([result(spec)])).map(({ arms }) => arms.length);
    expect(left(specOf('code-agnostic'))).toEqual([3, 2]);
    expect(left('another')).toEqual([3, 3]);
    expect(jobsOf([row], 'embedded', 2, known([0, 1].map((trial) => ({ ...result(specOf('code-agnostic')), trial, numbers: Object.fromEntries(['full', arm, armKey(row.contrasts[0]!.b!)].map((key) => [key, { hit: 1 }])) }))))).toEqual([]);
  });
});
