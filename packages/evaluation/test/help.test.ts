import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parsePolicy } from '@kv/policies';
import { generatedTasks } from '@kv/tasks';
import { protocolExample, protocolFields, readProtocol, readSweep, sweepExample, sweepFields } from '../src/index.ts';
import { candidateAt, Protocol } from '../src/protocol/plan.ts';
import { SweepFile } from '../src/sweep/sweep.ts';
import { folder } from './folder.ts';

const named = (fields: string): readonly string[] => [...fields.matchAll(/^(\w+) +/gm)].map(([, name]) => name);

it('names every field of a sweep, in its order, and every task', () => {
  const { models, policies, tasks, budgets, caches, seeds, part, contrasts, match, ...generation } =
      SweepFile.properties,
    first = Object.keys({ models, policies, tasks, budgets, caches, seeds });
  expect(named(sweepFields)).toEqual([
    ...first,
    ...Object.keys(generation),
    ...Object.keys({ part, contrasts, match }),
  ]);
  for (const task of generatedTasks) expect(sweepFields).toContain(` ${task}`);
  for (const line of sweepFields.split('\n')) expect(line).toMatch(/^(?:\w+ {2,}| {16}- )\S/);
});

it('names every field of a plan, in its order, and shows one that is read', () => {
  expect(named(protocolFields)).toEqual(Object.keys(Protocol.properties));
  const cwd = folder(),
    problem = { question: 'b', answer: 'c', grader: 'any', maxNewTokens: 1 };
  writeFileSync(
    join(cwd, 'problems.json'),
    JSON.stringify(['a', 'b', 'c', 'd', 'e', 'f'].map((id) => ({ id, context: id, ...problem }))),
  );
  writeFileSync(join(cwd, 'plan.json'), protocolExample);
  const { plan } = readProtocol(join(cwd, 'plan.json'), 'plan');
  for (const policy of [plan.base, candidateAt(plan, plan.lambdas[0])])
    expect(parsePolicy(policy).label).toContain('snapkv(window=16)');
});

it('shows a sweep that is read', () => {
  const path = join(folder(), 'sweep.json');
  writeFileSync(path, sweepExample);
  expect(readSweep(path, 's').tasks).toHaveLength(2);
});
