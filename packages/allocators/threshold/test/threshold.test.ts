import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, scorer, selector, scoreTransform } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, scoreAllocatorLaws } from '@kv/laws';
import { atLeast, simlayerkv, threshold } from '../src/index.ts';
import { lazyOracle, thresholdOracle } from './threshold.oracle.ts';

// they replace the requested total
describe.each(
  [
    atLeast({ slots: 3 }),
    threshold({ at: 0.4, window: 2 }),
    threshold({ at: -1e9, window: 0 }),
    simlayerkv({ threshold: 0.3, sinks: 1, recent: 2, last: 1 }),
    simlayerkv({ threshold: 1, recent: 2 }),
  ].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(scoreAllocatorLaws(piece, { slack: Infinity, runs: 60 }), test);
});

const best = selector('best', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks))();
const quarter = fc.integer({ min: -8, max: 8 }).map((x) => x / 4);
const cases = fc.record({
  n: fc.integer({ min: 1, max: 12 }),
  kvHeads: fc.integer({ min: 1, max: 3 }),
  group: fc.constantFrom(1, 2, 4),
  bar: quarter,
  window: fc.nat(5),
  gap: fc.nat(3),
  forced: fc.nat(2),
  banned: fc.nat(3),
  seed: fc.nat(999),
});
test('only slots that reach the bar stay, apart from window and masks', () => {
  fc.assert(
    fc.property(cases, ({ n, kvHeads, group, bar, window, gap, forced, banned, seed }) => {
      const scores = Array.from({ length: kvHeads * group }, (_, h) =>
        Array.from({ length: n }, (__, i) => (((seed * 7 + h * 5 + i * 3) % 17) - 8) / 4),
      );
      const must = Array.from({ length: Math.min(forced, n) }, (_, i) => i),
        not = Array.from({ length: Math.min(banned, n - must.length) }, (_, i) => must.length + i),
        mask = (set: readonly number[]) => Float32Array.from({ length: n }, (_, i) => Number(set.includes(i)));
      const masks = scoreTransform('masks', {}, ({ ops, scores: s }) => ({
        scores: s,
        forced: ops.from({ data: mask(must), shape: [1, n] }),
        banned: ops.from({ data: mask(not), shape: [1, n] }),
      }))();
      const positions = Array.from({ length: n }, (_, i) => i * (gap + 1)),
        length = positions.at(-1)! + 1;
      const { kept } = apply(compose(masks, threshold({ at: bar, window }), best), {
        scores,
        positions: scores.slice(0, kvHeads).map(() => positions),
        at: { kvHeads, queryHeads: kvHeads * group, length },
        budget: 1,
      });
      expect(kept).toEqual(
        Array.from({ length: kvHeads }, (_, g) =>
          thresholdOracle(scores.slice(g * group, (g + 1) * group), positions, bar, length - window, must, not),
        ),
      );
    }),
    { numRuns: 150 },
  );
});

const layers = fc.record({
  n: fc.integer({ min: 1, max: 24 }),
  kvHeads: fc.integer({ min: 1, max: 2 }),
  group: fc.integer({ min: 1, max: 2 }),
  threshold: fc.constantFrom(0, 0.2, 0.4, 0.6, 0.9, 1),
  sinks: fc.nat(3),
  recent: fc.integer({ min: 2, max: 6 }),
  last: fc.integer({ min: 1, max: 2 }),
  gap: fc.nat(2),
  seed: fc.nat(999),
});
test('a lazy layer keeps the slots of its sinks and recents, another and a short one everything', () => {
  let lazy = 0;
  fc.assert(
    fc.property(layers, ({ n, kvHeads, group, gap, seed, ...options }) => {
      const positions = Array.from({ length: n }, (_, i) => i * (gap + 1)),
        length = positions.at(-1)! + 1;
      const attention = Array.from({ length: kvHeads * group }, (_, h) => {
        const row = Array.from({ length: n }, (__, i) => 1 + ((seed * 13 + h * 7 + i * 11) % 23)),
          sum = row.reduce((a, b) => a + b, 0);
        return row.map((x) => x / sum);
      });
      const flat = scorer('flat', {}, ({ ops }) =>
          ops.from({ data: new Float32Array(kvHeads * n), shape: [kvHeads, n] }),
        )(),
        is = lazyOracle(attention, positions, length, options) && n > options.sinks + options.recent + options.last;
      lazy += Number(is);
      const { budgets } = apply(compose(flat, simlayerkv(options)), {
        attention,
        positions: Array.from({ length: kvHeads }, () => positions),
        at: { kvHeads, queryHeads: kvHeads * group, length, slots: n },
        budget: 1,
      });
      expect(budgets).toEqual(new Array<number>(kvHeads).fill(is ? options.sinks + options.recent - options.last : n));
    }),
    { numRuns: 200 },
  );
  expect(lazy).toBeGreaterThan(20);
});
test('forced slots count in a lazy layer', () => {
  const attention = [[0.9, 0.02, 0.02, 0.02, 0.02, 0.02]],
    flat = scorer('flat', {}, ({ ops }) => ({
      scores: ops.from({ data: new Float32Array(6), shape: [1, 6] }),
      forced: ops.lastSlots(ops.from({ data: new Float32Array(6), shape: [1, 6] }), 4),
    }))();
  expect(
    apply(compose(flat, simlayerkv({ threshold: 0.5, sinks: 1, recent: 2, last: 1 })), {
      attention,
      at: { slots: 6 },
      budget: 1,
    }).budgets,
  ).toEqual([4]);
});

test.each([
  [() => threshold({ at: Number.NaN }), 'threshold: at must be a finite number, got NaN'],
  [() => threshold({ window: -1 }), 'threshold: window must be a whole number of positions of at least 0, got -1'],
  [() => simlayerkv({ threshold: 2 }), 'simlayerkv: threshold must be a share from 0 to 1, got 2'],
  [() => simlayerkv({ recent: 0 }), 'simlayerkv: recent must be a positive whole number of positions, got 0'],
  [() => simlayerkv({ recent: 2, last: 3 }), 'simlayerkv: last must be at most recent, 2, got 3'],
])('%s is refused', (make, sentence) => {
  expect(make).toThrow(sentence);
});

test('atLeast is max(B, n_min), of the slots that there are', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20 }), fc.nat(20), fc.integer({ min: 1, max: 25 }), (n, asked, least) => {
      const budget = Math.min(asked, n),
        scores = [Array.from({ length: n }, (_, i) => i)];
      expect(apply(atLeast({ slots: least }), { scores, budget }).budgets).toEqual([
        Math.max(budget, Math.min(n, least)),
      ]);
    }),
  );
});
