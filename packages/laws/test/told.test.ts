import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { values, weightScorer } from '@kv/core';
import { scorerLaws } from '../src/index.ts';

const told = async (check: (() => void | Promise<void>) | undefined): Promise<string> => {
  try {
    await check?.();
  } catch (error) {
    return (error as Error).message;
  }
  return '';
};

test('a law that fails says its cause first, then the smallest case and how to run it again', async () => {
  const negative = weightScorer('negative', { needs: [values] }, ({ ops, values: v }) => ops.sub(0, ops.norm(v)))();
  const lines = (await told(scorerLaws(negative)['weights'])).split('\n');
  expect(lines[0]).toMatch(/^weights of layer 0: row 0, slot 0 must be at least 0, got -/);
  expect(lines[1]).toMatch(/^The smallest case, after \d+ steps: \[/);
  expect(lines.at(-1)).toMatch(/^Again with FC_SEED=-?\d+ in the environment\.$/);
  expect(lines.every((line) => line.length < 700)).toBe(true);
});

test('FC_SEED in the environment gives the same cases again, where nothing else sets a seed', async () => {
  const lucky = weightScorer('lucky', { needs: [values] }, ({ ops, values: v }) => ops.sub(ops.norm(v), 0.001))(),
    usual = fc.readConfigureGlobal(),
    cases = (): Promise<string> => told(scorerLaws(lucky)['weights']);
  try {
    fc.configureGlobal({ numRuns: 200 });
    vi.stubEnv('FC_SEED', '');
    const first = await cases(),
      [, seed] = /FC_SEED=(-?\d+)/.exec(first)!;
    expect(await cases()).not.toBe(first);
    vi.stubEnv('FC_SEED', seed);
    expect([await cases(), await cases()]).toEqual([first, first]);
    vi.stubEnv('FC_SEED', 'x');
    expect(await cases()).toBe("laws: expected FC_SEED as a whole number, got 'x'");
  } finally {
    fc.configureGlobal(usual);
    vi.unstubAllEnvs();
  }
});

test('a result of rank 3 breaks the law of shape', async () => {
  const whole = weightScorer('whole', { needs: [values] }, ({ values: v }) => v as never)();
  expect(await told(scorerLaws(whole)['shape'])).toMatch(/^expected a result of rows and slots, got one of shape \[/);
});
