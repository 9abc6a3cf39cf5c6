import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { generatedTasks } from '@kv/tasks';
import { readSweep, sweepExample, sweepFields } from '../src/index.ts';
import { SweepFile } from '../src/sweep/sweep.ts';
import { folder } from './folder.ts';

it('names every field of a sweep, in its order, and every task', () => {
  const named = [...sweepFields.matchAll(/^(\w+) +/gm)].map(([, name]) => name),
    { models, policies, tasks, budgets, seeds, part, match, ...generating } = SweepFile.properties,
    first = Object.keys({ models, policies, tasks, budgets, seeds });
  expect(named).toEqual([...first, ...Object.keys(generating), ...Object.keys({ part, match })]);
  for (const task of generatedTasks) expect(sweepFields).toContain(` ${task}`);
  for (const line of sweepFields.split('\n')) expect(line.length, line).toBeLessThan(120);
});

it('shows a sweep that is read', () => {
  const path = join(folder(), 'sweep.json');
  writeFileSync(path, sweepExample);
  expect(readSweep(path, 's').tasks).toHaveLength(2);
});
