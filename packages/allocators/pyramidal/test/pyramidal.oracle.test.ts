import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compile, compose, planBudgets, scorer } from '@kv/core';
import type { Allocator, Plan } from '@kv/core';
import { pyramidal, pyramidkv } from '../src/index.ts';
import { authors, kvpress } from './pyramidal.oracle.ts';

/** A scorer that forces `window` slots, as SnapKV does. */
const forcing = (window: number) =>
  scorer('forcing', { floor: (_, n) => Math.min(n, window) }, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }),
  )();
const plan = (allocator: Allocator, { mean, window, slots, layers }: Case, heads = 2): Plan =>
  planBudgets(
    compile(compose(forcing(window), allocator)),
    mean,
    Array.from({ length: layers }, () => new Array<number>(heads).fill(slots)),
  );
interface Case {
  readonly mean: number;
  readonly window: number;
  readonly slots: number;
  readonly layers: number;
  readonly beta: number;
}
const cases: fc.Arbitrary<Case> = fc.record({
  mean: fc.integer({ min: 1, max: 200 }),
  window: fc.nat(40),
  slots: fc.integer({ min: 1, max: 600 }),
  layers: fc.integer({ min: 1, max: 12 }),
  beta: fc.constantFrom(1, 2, 7.5, 20),
});
const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0);

describe('pyramidal', () => {
  test("is within one slot of the authors' line, falls, and adds up exactly; else uniform, with a note", () => {
    fc.assert(
      fc.property(
        cases.filter((c) => c.slots >= c.mean),
        (given) => {
          const { budgets, notes } = plan(pyramidal({ beta: given.beta }), given),
            rows = budgets.map((heads) => heads[0]);
          const line = authors(given.mean, given.window, given.slots, given.layers, given.beta);
          expect(budgets.every((heads) => heads.every((b) => b === heads[0]))).toBe(true);
          expect(sum(rows)).toBe(given.mean * given.layers);
          expect(notes.length).toBe(line ? 0 : 1);
          rows.forEach((b, l) => expect(Math.abs(b - (line?.get(l) ?? given.mean))).toBeLessThan(line ? 1 : 1e-9));
          rows.forEach((b, l) => expect(b).toBeLessThanOrEqual(rows[l - 1] ?? Infinity));
        },
      ),
    );
  });

  test('the authors overspend by 2.7 % where this adds up: 32 layers, window 8, M = 512', () => {
    const theirs = Array.from({ length: 32 }, (_, l) => {
      const least = Math.floor(504 / 20),
        most = 2 * 504 - least;
      return most - l * Math.floor((most - least) / 31) + 8;
    });
    expect([theirs[0], theirs[1], theirs[31], sum(theirs)]).toEqual([991, 961, 61, 16832]);
    const { budgets } = plan(pyramidal(), { mean: 512, window: 8, slots: 4096, layers: 32, beta: 20 }, 1);
    expect([budgets[0][0], budgets[31][0], sum(budgets.flat())]).toEqual([991, 33, 32 * 512]);
  });

  test.each([
    ['one layer', { mean: 10, window: 2, slots: 100, layers: 1, beta: 20 }, 'one layer only'],
    [
      'a budget of the window',
      { mean: 8, window: 8, slots: 100, layers: 4, beta: 20 },
      'leaves nothing above the 8 forced slots',
    ],
    [
      'a short prompt',
      { mean: 60, window: 8, slots: 103, layers: 4, beta: 20 },
      '103 slots are fewer than 2 (M - W) = 104',
    ],
  ])('%s is said to be uniform', (_, given, note) => {
    const { budgets, notes } = plan(pyramidal(), given);
    expect(notes).toEqual([expect.stringContaining(note)]);
    expect(new Set(budgets.flat())).toEqual(new Set([given.mean]));
  });

  test('one slot on this side of a short prompt is no fallback', () => {
    expect(plan(pyramidal(), { mean: 60, window: 8, slots: 104, layers: 4, beta: 20 }).notes).toEqual([]);
  });
});

describe('pyramidkv', () => {
  test("is kvpress' rule", () => {
    fc.assert(
      fc.property(
        cases.filter((c) => c.slots >= c.mean),
        (given) => {
          const { budgets } = plan(pyramidkv({ window: given.window, beta: given.beta }), given),
            want = kvpress(given.mean, given.window, given.slots, given.layers, given.beta);
          expect(budgets).toEqual(want.map((b) => [b, b]));
        },
      ),
    );
  });

  test("the goldens' budgets: 240 slots, 4 layers, window 16", () => {
    const given = { window: 16, slots: 240, layers: 4, beta: 20 };
    expect(
      plan(pyramidkv({ window: given.window, beta: given.beta }), { ...given, mean: 120 }, 1).budgets.flat(),
    ).toEqual([224, 155, 85, 16]);
    const half = plan(pyramidkv({ window: given.window, beta: given.beta }), { ...given, mean: 60 }, 1);
    expect([half.budgets.flat(), half.notes.length]).toEqual([[60, 60, 60, 60], 1]);
  });
});

test.each([
  ['beta', () => pyramidal({ beta: 0 })],
  ['beta', () => pyramidkv({ beta: Number.NaN })],
  ['window', () => pyramidkv({ window: -1 })],
])('%s is checked', (option, make) => {
  expect(make).toThrow(`${option} must be`);
});
