import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeTinyModel } from '@kv/model-testing';
import { loadModel } from '@kv/models';
import type { Model } from '@kv/models';
import { beforeAll, describe, expect, it } from 'vitest';
import { cellExperiment, cellQueue, checkCellJob, elsewhere, here, runExperiment } from '../src/index.ts';
import type { CellJob } from '../src/index.ts';
import { cellsOf } from '../src/cells/experiment.ts';
import { folder } from './folder.ts';

let model: Model;
beforeAll(async () => {
  model = await loadModel(writeTinyModel(join(folder(), 'tiny')));
});
const tasks = {
    numbers: Array.from({ length: 4 }, (_, i) => ({
      id: `p/${i}`,
      context: `${'Some words stand here. '.repeat(6)}The number is ${i}.`,
      question: ' The number is',
      answers: [String(i)],
      grader: 'any' as const,
      maxNewTokens: 5,
    })),
  },
  policies = ['full', 'streaming', 'random'],
  code = async (): Promise<readonly string[]> => ['@kv/core@0.0.0+1b', '@kv/policies@0.0.0+2c'];

const experiment = async () => {
  const arms = policies.map((policy) => ({ policy, budgets: [24, '25%'] as const })),
    problems = tasks.numbers.map(({ id }) => ({ task: 'numbers', id })),
    cells = await cellsOf(arms, problems, [0, 1], undefined);
  return cellExperiment(model, { name: 'cells', tasks, generation: { every: 2, block: undefined }, policies, cells });
};
const storeIn = (kept: string): string => readFileSync(join(kept, readdirSync(kept)[0]), 'utf8');
const overTheWire = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const job: CellJob = {
  format: 1,
  cell: { task: 'numbers', problem: 'p/0', policy: 'streaming', budget: 24, seed: 0 },
  problem: tasks.numbers[0],
  generation: { every: 2 },
  code: ['@kv/core@0.0.0+1b', '@kv/policies@0.0.0+2c'],
};

describe('cells elsewhere', () => {
  it('keep the very bytes of one machine, whichever answers first', async () => {
    const one = folder(),
      many = folder(),
      local = await runExperiment(await experiment(), { start: here({ model }), folder: one }),
      runner = here({ model })<CellJob, object>({ kind: 'cell jobs' }),
      there = new Set<string>();
    const ask = async (asked: CellJob) => {
      const key = JSON.stringify(asked);
      there.add(key);
      await sleep(5 * (key.length % 7)); // others are faster
      const result = await runner.run(await checkCellJob(overTheWire(asked), model, code));
      const { id, ...rest } = result as { id: string };
      // in another order of keys
      return { result: overTheWire({ ...rest, id }), forget: async () => void there.delete(key) };
    };
    const remote = await runExperiment(await experiment(), { start: elsewhere(ask, code), size: 8, folder: many });
    expect(remote).toEqual(local);
    expect(remote).toHaveLength(4 * 2 * (1 + 2 + 2));
    expect(storeIn(many)).toBe(storeIn(one));
    expect(there.size).toBe(0);
  });
  it('are asked of a queue of the same weights, engine and version alone', () => {
    const names = [
      cellQueue(model, '1.0.0'),
      cellQueue(model, '1.0.1'),
      cellQueue({ ...model, fingerprint: 'other' }, '1.0.0'),
      cellQueue({ ...model, engine: 'other' }, '1.0.0'),
    ];
    expect(new Set(names).size).toBe(4);
    expect(cellQueue(model, '1.0.0')).toMatch(/^cells-[0-9a-f]{12}$/);
  });
  it.each([
    [null, 'job: expected an object, got null'],
    [{ ...job, format: 2 }, 'job: format must be 1, got 2'],
    [
      { ...job, path: '/etc/passwd' },
      'job: path is no field that is known (there are format, cell, problem, generation, code), got "/etc/passwd"',
    ],
    [{ ...job, cell: { ...job.cell, budget: -1 } }, 'job: cell.budget must'],
    [
      { ...job, cell: { ...job.cell, model: '/etc' } },
      'job: cell.model is no field that is known (there are task, problem, policy, budget, cache, seed), got "/etc"',
    ],
    [{ ...job, cell: { ...job.cell, problem: 'p/1' } }, 'job: expected the problem of its cell, got "p/0"'],
    [{ ...job, problem: { ...job.problem, maxNewTokens: 1e9 } }, 'job: problem.maxNewTokens must be <= 65536'],
    [{ ...job, problem: { ...job.problem, maxNewTokens: 9999 } }, 'job: expected problems that fit the'],
    [{ ...job, problem: { ...job.problem, grader: 'eval' } }, 'job: problem.grader must'],
    [{ ...job, problem: { ...job.problem, context: 'x'.repeat(1e7) } }, 'job: expected a text of at most'],
    [{ ...job, generation: { mode: 'agnostic' }, problem: { ...job.problem, context: '' } }, 'job: expected a context'],
    [{ ...job, generation: { every: 0 } }, 'job: generation.every must be >= 1'],
    [
      { ...job, code: ['@kv/core@0.0.0+1b', '@kv/policies@0.0.0+3d'] },
      'job: expected a worker with @kv/policies@0.0.0+3d, got @kv/policies@0.0.0+2c',
    ],
  ])('refuse a hostile job in one sentence (%#)', async (value, said) => {
    await expect(checkCellJob(overTheWire(value), model, code)).rejects.toThrow(said);
  });
  it.each([
    [null, 'expected an object, got null'],
    [{}, 'expected the fields answer, tokens, slots, bytes, evidence, got {}'],
    [{ tokens: -1 }, 'tokens must be >= 0, got -1'],
    [{ slots: { mean: 'x', peak: 1 } }, 'slots.mean must be a number, got "x"'],
    [{ evidence: { map: '<script>' } }, 'evidence.map must match pattern'],
    [{ evidence: { depth: 2 } }, 'evidence.depth must be <= 1, got 2'],
  ])('refuse a hostile result in one sentence, and forget it (%#)', async (change, said) => {
    const good = { answer: '0', tokens: 1, slots: { mean: 1, peak: 1 }, bytes: { mean: 1, peak: 1 }, evidence: {} },
      empty = change !== null && Object.keys(change).length === 0;
    let forgotten = 0;
    const runner = elsewhere(
      async () => ({
        result: empty || change === null ? change : { ...good, ...change },
        forget: async () => void forgotten++,
      }),
      code,
    )({ kind: 'cells', tasks, generation: {} });
    await expect(runner.run(job.cell)).rejects.toThrow(said);
    expect(forgotten).toBe(1);
  });
  it('are scored here, whatever a worker says of itself', async () => {
    const result = {
        ...{ id: 'mine', task: 'mine', score: 1, parsed: true, answer: 'wrong', tokens: 1 },
        ...{ slots: { mean: 1, peak: 1 }, bytes: { mean: 1, peak: 1 }, evidence: { __proto__: null } },
      },
      runner = elsewhere(
        async () => ({ result: overTheWire(result), forget: async () => {} }),
        code,
      )({
        ...{ kind: 'cells', tasks, generation: {} },
      });
    expect(await runner.run(job.cell)).toMatchObject({ ...job.cell, answer: 'wrong', score: 0 });
  });
});
