import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, mandatory, state, allocatorBy, onStep, scorer, selector, weightScorer } from '@kv/core';
import { apply } from '@kv/cpu';
import { compile } from '@kv/core/engine';
import type { ScoreAllocator } from '@kv/core';
import { protectedPartition } from '../src/index.ts';
import { partitionOracle } from './protected-partition.oracle.ts';

const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
const marks = (row: readonly number[]) =>
  scorer('marks', {}, ({ ops }) => ops.from({ data: Float32Array.from(row), shape: [1, row.length] }))();
const run = (
  partition: ScoreAllocator,
  scores: readonly number[],
  budget: number,
  { sinks = 0, recent = 0 } = {},
): readonly number[] =>
  apply(compose(mandatory({ sinks, recent }), partition, best), { scores: [scores], budget }).kept![0];
/**
 * A main score and a second one, with ties and mostly no mark; the budget covers the sinks and recents, and perhaps the
 * pool.
 */
const cases = fc.integer({ min: 1, max: 24 }).chain((n) =>
  fc.record({
    scores: fc.array(fc.integer({ min: -4, max: 4 }), { minLength: n, maxLength: n }),
    by: fc.array(fc.oneof(fc.constant(0), fc.integer({ min: -2, max: 3 })), { minLength: n, maxLength: n }),
    slots: fc.nat(5),
    sinks: fc.nat(2),
    recent: fc.nat(2),
    spare: fc.nat(8),
  }),
);

test('agrees with its oracle', () => {
  fc.assert(
    fc.property(cases, ({ scores, by, slots, sinks, recent, spare }) => {
      const n = scores.length,
        forced = scores.flatMap((_, i) => (i < sinks || i >= n - recent ? [i] : [])),
        budget = Math.min(n, forced.length + spare);
      expect(run(protectedPartition(marks(by), { slots }), scores, budget, { sinks, recent })).toEqual(
        partitionOracle(scores, by, budget, slots, forced),
      );
    }),
  );
});

/** Theorem 2: a marked span of at most K_p slots survives any main scores. */
const theorem = (make: (by: ReturnType<typeof marks>, slots: number) => ScoreAllocator) =>
  fc.property(
    fc.record({
      n: fc.integer({ min: 4, max: 40 }),
      length: fc.integer({ min: 1, max: 8 }),
      start: fc.nat(40),
      slots: fc.nat(3),
      spare: fc.nat(4),
      seed: fc.array(fc.float({ min: -9, max: 9, noNaN: true }), { minLength: 40, maxLength: 40 }),
    }),
    ({ n, length, start, slots, spare, seed }) => {
      const from = start % n,
        span = Array.from({ length: Math.min(length, n - from) }, (_, i) => from + i);
      const by = Array.from({ length: n }, (_, i) => (span.includes(i) ? 15 * 0.8 ** (i - from + 1) : 0));
      const kept = run(make(marks(by), length + slots), seed.slice(0, n), Math.min(n, 3 + length + slots + spare), {
        sinks: 1,
        recent: 2,
      });
      return span.every((slot) => kept.includes(slot));
    },
  );
/** Unclaimed protected slots go back: without a positive mark the partition changes nothing. */
const returning = (make: (by: ReturnType<typeof marks>, slots: number) => ScoreAllocator) =>
  fc.property(cases, ({ scores, by, slots, spare }) => {
    const budget = Math.min(scores.length, slots + spare),
      none = by.map((x) => -Math.abs(x));
    return run(make(marks(none), slots), scores, budget).join() === partitionOracle(scores, none, budget, 0, []).join();
  });
/** A partition without the condition `positive`, and one that is a slot short. */
const greedy = (by: ReturnType<typeof marks>, slots: number): ScoreAllocator =>
  allocatorBy('greedy', {}, ({ ops, by: s, budgets, forced }) => ({
    forced: ops.mark(ops.select(s, ops.fill(budgets, slots), { banned: forced }), s),
  }))(by);
const short = (by: ReturnType<typeof marks>, slots: number): ScoreAllocator =>
  protectedPartition(by, { slots: slots - 1 });
const good = (by: ReturnType<typeof marks>, slots: number): ScoreAllocator => protectedPartition(by, { slots });

describe('its own laws', () => {
  test('a span of at most K_p marked slots survives any scores', () => fc.assert(theorem(good)));
  test('unused slots go back to the main pool', () => fc.assert(returning(good)));
  test.each([
    ['the theorem catches a pool that is one slot short', theorem(short)],
    ['the return catches a pool that takes unmarked slots', returning(greedy)],
  ])('%s', (_, property) => {
    expect(fc.check(property as fc.IProperty<unknown>).failed).toBe(true);
  });
});

test('m decoys are tolerated while K_p >= (m + 1) L, and compete by score beyond', () => {
  const by = [0, 12, 9.6, 0, 12, 9.6, 0, 0],
    scores = [1, 0, 0, 9, 0, 0, 8, 7];
  expect(run(protectedPartition(marks(by), { slots: 4 }), scores, 5)).toEqual([1, 2, 3, 4, 5]);
  expect(run(protectedPartition(marks(by), { slots: 2 }), scores, 4)).toEqual([1, 3, 4, 6]);
});

test('forced slots beyond the budget are an error of the event, so the floor counts the pool and what `by` forces', () => {
  const by = weightScorer('by', { minSlots: () => 2 }, ({ ops, at }) =>
    ops.from({ data: new Float32Array(at.slots), shape: [1, at.slots] }),
  )();
  expect(compile(protectedPartition(by, { slots: 3 })).minSlots(100, 50)).toBe(5);
  expect(compile(protectedPartition(by, { slots: 3 })).minSlots(2, 50)).toBe(2);
});

test('the inner scorer brings its needs, hooks, checks and label', () => {
  const age = state('age', { kind: 'position', rows: 'model' });
  const inner = weightScorer('aged', { needs: [age] }, ({ ops, age: a }) => ops.add(a, 0))();
  const hooked = {
    ...inner,
    atoms: [
      ...inner.atoms,
      ...onStep('older', { needs: [age], reach: 'model' }, ({ ops, age: a }) => ({ age: ops.add(a, 1) }))().atoms,
    ],
  };
  const piece = protectedPartition(hooked, { slots: 2 });
  expect(piece.label).toBe('protectedPartition(aged,slots=2)');
  expect(compile(piece).needs.map((s) => s.id)).toEqual(['state.age']);
  expect(compile(piece).hooks('step')).toHaveLength(1);
  expect(compile(compose(hooked, piece, best)).hooks('step')).toHaveLength(1);
  expect(() =>
    apply(compose(protectedPartition(marks([Number.NaN, 1])), best), { scores: [[1, 2]], budget: 1 }),
  ).toThrow('marks');
  expect(() => protectedPartition(inner, { slots: 1.5 })).toThrow(
    'slots must be a share of the budget below 1, or a whole number of slots, got 1.5',
  );
});

test('what says that it only forces leaves budgets as they are', () => {
  const says = (declared: { readonly forces?: boolean }): ScoreAllocator =>
    allocatorBy('half', declared, ({ ops, budgets }) => ({ budgets: ops.map('floor', ops.mul(budgets, 0.5)) }))(
      marks([1, 2, 3, 4]),
    );
  expect(run(says({}), [1, 2, 3, 4], 4)).toEqual([2, 3]);
  expect(() => run(says({ forces: true }), [1, 2, 3, 4], 4)).toThrow(
    'half, layer 0: expected budgets left as they are',
  );
});

test('slots below 1 are a share of the budget, rounded down', () => {
  fc.assert(
    fc.property(cases, fc.integer({ min: 1, max: 99 }), ({ scores, by, sinks, recent, spare }, percent) => {
      const n = scores.length,
        forced = scores.flatMap((_, i) => (i < sinks || i >= n - recent ? [i] : [])),
        budget = Math.min(n, forced.length + spare),
        share = percent / 100,
        pool = Math.floor(Math.fround(budget * Math.fround(share))), // as f32 has it
        partition = protectedPartition(marks(by), { slots: share });
      fc.pre(budget >= forced.length + Math.floor(share * budget));
      expect(run(partition, scores, budget, { sinks, recent })).toEqual(
        partitionOracle(scores, by, budget, pool, forced),
      );
    }),
  );
});
test('with `whole` a note says that the pool is too small, exactly when it is and something is dropped', () => {
  fc.assert(
    fc.property(cases, ({ scores, by, slots, spare }) => {
      const budget = Math.min(scores.length, slots + spare),
        notes = (whole: boolean): readonly string[] =>
          apply(compose(protectedPartition(marks(by), { slots, whole }), best), { scores: [scores], budget }).notes;
      expect(notes(false)).toEqual([]);
      expect(notes(true)).toHaveLength(
        budget < scores.length && by.filter((x) => x > 0).length > Math.min(budget, slots) ? 1 : 0,
      );
    }),
  );
});
