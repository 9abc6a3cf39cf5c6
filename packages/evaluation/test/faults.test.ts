import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { writeTinyModel } from '@kv/model-testing';
import { calm, FAULTS, strike } from '@kv/model-testing/faulty-disk';
import { loadModel } from '@kv/models';
import { afterEach, describe, expect, test, vi } from 'vitest';
import {
  here,
  needleReport,
  needleTable,
  paperStudy,
  planOf,
  runExperiment,
  studyMarkdown,
  writeWhole,
} from '../src/index.ts';
import type { Experiment, Work } from '../src/index.ts';
import type { Runner } from '../src/jobs/pool.ts';
import { folder } from './folder.ts';

vi.mock('node:fs', async (original) => (await import('@kv/model-testing/faulty-disk')).faulty(await original()));
afterEach(() => void calm());

/** An experiment, and what its command writes of it. */
interface Command {
  readonly experiment: Experiment<unknown, unknown, unknown>;
  report(result: unknown): string;
}
const model = await loadModel(writeTinyModel(join(folder(), 'tiny')));
async function needle(): Promise<Command> {
  const experiment = await needleTable(model, {
    policies: ['streaming'],
    budgets: ['50%'],
    depths: [0.5],
    prompts: 1,
    tokens: 160,
    modes: ['aware'],
  });
  return { experiment: experiment as Command['experiment'], report: needleReport as Command['report'] };
}
async function papers(): Promise<Command> {
  const plan = {
    ...planOf('1'),
    tasks: { ...planOf('1').tasks, 'prose-prefill': { kind: 'prompt', tokens: 96 } },
  } as const;
  const experiment = await paperStudy(model, plan, { rows: ['psaw-etf'], n: 3, seed: 1 });
  return {
    experiment: experiment as Command['experiment'],
    report: (study) => studyMarkdown(study as Parameters<typeof studyMarkdown>[0], 'kv papers'),
  };
}
/** Runs each job once: what it came to is the same again, and the disk is what fails here. */
function once(): (work: Work) => Runner<unknown, unknown> {
  const known = new Map<string, Promise<unknown>>();
  return (work) => {
    const runner = here({ model })<unknown, unknown>(work);
    return {
      run: (job) => {
        const key = JSON.stringify(job),
          result = known.get(key) ?? runner.run(job);
        known.set(key, result);
        return result;
      },
      stop: async () => {},
    };
  };
}
/** Results without the times that a run took. */
const timeless = (text: string): string => text.replace(/"(?:seconds|took|ms)":[^,}]*/g, '');

describe.each([
  ['needle', needle],
  ['papers', papers],
])('%s, from the first job to the report', (_, make) => {
  let command: Promise<readonly [Command, ReturnType<typeof once>]> | undefined;
  const made = (): NonNullable<typeof command> => (command ??= make().then((one) => [one, once()] as const));
  test.each(FAULTS)(
    '%s at every operation: results that were counted stay, the report is whole, and the same goes on',
    async (fault) => {
      const [{ experiment, report }, start] = await made(),
        all = folder();
      const run = async (into: string, counted: unknown[] = []): Promise<string> => {
        const result = await runExperiment(experiment, { start, folder: into, onResult: (r) => counted.push(r) });
        writeWhole(join(into, 'report'), report(result), 'report');
        return timeless(report(result));
      };
      const want = await run(all);
      let operations = 0;
      for (let at = 0, reached = true; reached; at++) {
        const into = folder(),
          counted: unknown[] = [];
        writeWhole(join(into, 'report'), 'old', 'report');
        strike(at, fault, into);
        const error: unknown = await run(into, counted).then(
          () => undefined,
          (thrown: unknown) => thrown,
        );
        reached = calm();
        if (reached) operations++;
        if (error !== undefined && fault !== 'kill') {
          expect(KvError.is(error)).toBe(true);
          expect((error as KvError).message).toMatch(/^\S+: expected [^\n]+, got [^\n]+$/);
        }
        const whole = readFileSync(join(into, 'report'), 'utf8');
        expect(['old', want]).toContain(whole === 'old' ? whole : timeless(whole));
        if (error === undefined) expect(timeless(whole)).toBe(want);
        const again: unknown[] = [];
        expect(await run(into, again)).toBe(want);
        expect(again.length, 'jobs that were counted and run again').toBeLessThanOrEqual(
          experiment.left(counted).length,
        );
        expect(readdirSync(into).filter((name) => !/\.part$/.test(name)).length).toBe(2);
      }
      expect(operations).toBeGreaterThan(12);
    },
  );
});
