import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scorer } from '@kv/core';
import { compile, planBudgets } from '@kv/core/engine';
import type { Allocator, BudgetPlan } from '@kv/core';
import { linearBudgets, roundedLinearBudgets } from '../src/index.ts';
import { authors, filled, kvpress } from './pyramidal.oracle.ts';

/** A scorer that forces `window` slots, as SnapKV does. */
const forcing = (window: number) =>
  scorer('forcing', { minSlots: (_, n) => Math.min(n, window) }, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }),
  )();
const planOf = (allocator: Allocator, { mean, window }: Case, layers: readonly number[], heads: number): BudgetPlan =>
  planBudgets(
    compile(compose(forcing(window), allocator)),
    mean,
    layers.map((slots) => new Array<number>(heads).fill(slots)),
  );
const plan = (allocator: Allocator, given: Case, heads = 2): BudgetPlan =>
  planOf(allocator, given, new Array<number>(given.layers).fill(given.slots), heads);
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

describe('linearBudgets', () => {
  test("is within one slot of the authors' line, falls, and adds up exactly; else uniform, with a note", () => {
    fc.assert(
      fc.property(
        cases.filter((c) => c.slots >= c.mean),
        (given) => {
          const { budgets, notes } = plan(linearBudgets({ beta: given.beta }), given),
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

  test('over layers of unequal length: the line of the longest, none above what it has, the rest to the others', () => {
    fc.assert(
      fc.property(
        cases
          .filter((c) => c.slots >= c.mean)
          .chain((given) =>
            fc.tuple(
              fc.constant(given),
              fc.integer({ min: 1, max: given.slots }),
              fc.array(fc.boolean(), { minLength: given.layers, maxLength: given.layers }),
            ),
          ),
        ([given, sliding, windowed]) => {
          const lengths = windowed.map((is, l) => (is && l > 0 ? sliding : given.slots)),
            { mean, window, slots, layers, beta } = given,
            line = authors(mean, window, slots, layers, beta),
            { budgets, notes } = planOf(linearBudgets({ beta }), given, lengths, 2),
            rows = budgets.map((heads) => heads[0]);
          expect(notes.length).toBe(line ? 0 : 1);
          if (!line) {
            expect(rows).toEqual(lengths.map((n) => Math.min(n, mean)));
            return;
          }
          const total = Math.min(mean * layers, sum(lengths)),
            want = filled(
              rows.map((_, l) => line.get(l)),
              lengths,
              total,
            );
          expect(sum(rows)).toBe(total);
          rows.forEach((b, l) => {
            expect(b).toBeLessThanOrEqual(lengths[l]);
            expect(Math.abs(b - want[l])).toBeLessThan(1);
            // an earlier layer that has as much gets as much
            for (let later = l + 1; later < layers; later++)
              if (lengths[l] >= lengths[later]) expect(b).toBeGreaterThanOrEqual(rows[later]);
          });
        },
      ),
    );
  });

  test('five windows of 512 to one global layer, as Gemma 3 has them: the global layers take what the windows cannot', () => {
    const lengths = Array.from({ length: 18 }, (_, l) => ((l + 1) % 6 === 0 ? 8192 : 512)),
      { budgets, notes } = planOf(
        linearBudgets(),
        { mean: 1024, window: 16, slots: 0, layers: 18, beta: 20 },
        lengths,
        1,
      ),
      rows = budgets.flat();
    expect([notes, sum(rows)]).toEqual([[], 18 * 1024]);
    expect(rows.filter((_, l) => (l + 1) % 6 !== 0)).toEqual(new Array(15).fill(512));
    const [first, second, third] = [rows[5], rows[11], rows[17]];
    // 6 of 17 steps of the line from 2 (M - W) - (M - W) / 20 to (M - W) / 20 apart
    const step = (6 * (2 * 1008 - 2 * (1008 / 20))) / 17;
    for (const fall of [first - second, second - third]) expect(Math.abs(fall - step)).toBeLessThan(1);
  });

  test('the authors overspend by 2.7 % where this adds up: 32 layers, window 8, M = 512', () => {
    const theirs = Array.from({ length: 32 }, (_, l) => {
      const least = Math.floor(504 / 20),
        most = 2 * 504 - least;
      return most - l * Math.floor((most - least) / 31) + 8;
    });
    expect([theirs[0], theirs[1], theirs[31], sum(theirs)]).toEqual([991, 961, 61, 16832]);
    const { budgets } = plan(linearBudgets(), { mean: 512, window: 8, slots: 4096, layers: 32, beta: 20 }, 1);
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
    const { budgets, notes } = plan(linearBudgets(), given);
    expect(notes).toEqual([expect.stringContaining(note)]);
    expect(new Set(budgets.flat())).toEqual(new Set([given.mean]));
  });

  test('one slot on this side of a short prompt is no fallback', () => {
    expect(plan(linearBudgets(), { mean: 60, window: 8, slots: 104, layers: 4, beta: 20 }).notes).toEqual([]);
  });
});

describe('roundedLinearBudgets', () => {
  test("is kvpress' rule", () => {
    fc.assert(
      fc.property(
        cases.filter((c) => c.slots >= c.mean),
        (given) => {
          const { budgets } = plan(roundedLinearBudgets({ window: given.window, beta: given.beta }), given),
            want = kvpress(given.mean, given.window, given.slots, given.layers, given.beta);
          expect(budgets).toEqual(want.map((b) => [b, b]));
        },
      ),
    );
  });

  test("is kvpress' rule for a share of the tokens, which is rounded in the layers and not before", () => {
    fc.assert(
      fc.property(cases, fc.integer({ min: 1, max: 99 }), ({ window, slots, layers, beta }, percent) => {
        const asked = (slots * percent) / 100,
          policy = compile(compose(forcing(window), roundedLinearBudgets({ window, beta }))),
          lengths = Array.from({ length: layers }, () => [slots]);
        fc.pre(asked >= 1);
        const { budgets } = planBudgets(policy, { slots: Math.floor(asked), requested: asked }, lengths);
        expect(budgets.flat()).toEqual(kvpress(asked, window, slots, layers, beta).map((b) => Math.min(b, slots)));
      }),
    );
    // 35 % of 250 tokens, rounded down before, would be 87 slots a layer
    const policy = compile(compose(forcing(16), roundedLinearBudgets({ window: 16, beta: 20 })));
    expect(planBudgets(policy, { slots: 87, requested: 87.5 }, [[250], [250]]).budgets.flat()).toEqual([88, 88]);
  });

  test("the goldens' budgets: 240 slots, 4 layers, window 16", () => {
    const given = { window: 16, slots: 240, layers: 4, beta: 20 };
    expect(
      plan(roundedLinearBudgets({ window: given.window, beta: given.beta }), { ...given, mean: 120 }, 1).budgets.flat(),
    ).toEqual([224, 155, 85, 16]);
    const half = plan(roundedLinearBudgets({ window: given.window, beta: given.beta }), { ...given, mean: 60 }, 1);
    expect([half.budgets.flat(), half.notes.length]).toEqual([[60, 60, 60, 60], 1]);
  });
});

test.each([
  ['beta', () => linearBudgets({ beta: 0 })],
  ['beta', () => roundedLinearBudgets({ beta: Number.NaN })],
  ['window', () => roundedLinearBudgets({ window: -1 })],
])('%s is checked', (option, make) => {
  expect(make).toThrow(`${option} must be`);
});
