import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { KvError } from '@kv/core';
import { calm, FAULTS, strike } from '@kv/model-testing/faulty-disk';
import { inTurn } from '@kv/model-testing/in-turn';
import { afterEach, describe, expect, test } from 'vitest';
import { writeWhole } from '../src/files.ts';
import { runExperiment } from '../src/index.ts';
import type { Experiment, OwnWork, RunOptions, ExperimentWork } from '../src/index.ts';
import { folder } from './folder.ts';

/** An experiment, its runner, and the output of its command. */
export interface Command<W extends ExperimentWork = OwnWork> {
  readonly experiment: Experiment<unknown, unknown, unknown, W>;
  readonly start: RunOptions<unknown, unknown, W>['start'];
  report(result: unknown): string;
}

/** Runs each job once and reuses its result, since only the disk fails here. */
function once<W extends ExperimentWork>(start: Command<W>['start']): Command<W>['start'] {
  const known = new Map<string, Promise<unknown>>();
  return (work) => {
    const runner = start(work);
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

/**
 * Tests an experiment on a disk that fails at every operation. The test file replaces `node:fs` by that of
 * `@kv/model-testing/faulty-disk`.
 */
export function onFaultyDisk<W extends ExperimentWork = OwnWork>(name: string, make: () => Promise<Command<W>>): void {
  describe(`${name}, from the first job to the report`, () => {
    afterEach(() => void calm());
    let command: Promise<Command<W>> | undefined;
    const made = (): Promise<Command<W>> => (command ??= make().then((one) => ({ ...one, start: once(one.start) })));
    test.each(inTurn(FAULTS, 2))(
      '%s at every operation: results that were counted stay, the report is whole, and the same goes on',
      async (fault) => {
        const { experiment, report, start } = await made(),
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
}
