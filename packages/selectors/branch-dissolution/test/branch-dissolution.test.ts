import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, count, positions, scoreTransform, sum, unit } from '@kv/core';
import { apply } from '@kv/cpu';
import type { Piece } from '@kv/core';
import { each, kernelLaws, selectorLaws } from '@kv/laws';
import { allowance, branchDissolution } from '../src/index.ts';
import { dissolutionOracle } from './branch-dissolution.oracle.ts';

/** Units of `size` positions each; a unit scores the mean of its slots. */
const runs = unit(
  'runs',
  { options: { size: count(4, 'positions', 'Positions in a unit.') }, needs: [positions] },
  ({ ops, at, scores, positions: p }, { size }) => {
    const table = Uint32Array.from({ length: at.length }, (_, i) => Math.floor(i / size));
    const of = ops.take(ops.from({ data: table, shape: [1, at.length] }, 'u32'), p);
    const units = { of, count: Math.ceil(at.length / size), byPosition: table };
    return { units, scores: ops.groupSlots('mean', scores, of, units.count) };
  },
);
/** Up to two slots fewer where the last unit goes whole. */
const size = (budget: number, n: number, banned: number) => {
  const most = Math.min(budget, n - banned);
  return { least: most - 2, most };
};

describe.each([1, 3, 4])('units of %d', (of) => {
  // a unit may be kept for one forced slot, or go for having too few
  const { ties, ...laws } = selectorLaws(compose(runs({ size: of }), branchDissolution()), { runs: 25, size });
  each(laws, test);
  expect(ties).toBeDefined();
});
describe('protecting slots, of units of one', () => {
  each(selectorLaws(compose(runs({ size: 1 }), branchDissolution({ protect: 'slots', least: 1 })), { runs: 25 }), test);
});
describe('allowance', () => {
  each(
    kernelLaws(allowance, {
      make: ({ rows, slots: n, seed }) => ({
        inputs: {
          scores: {
            data: Float32Array.from({ length: rows * n }, (_, i) => Math.round(4 * Math.sin(i * 7 + seed))),
            shape: [rows, n],
          },
          sizes: { data: Float32Array.from({ length: rows * n }, (_, i) => 1 + (i % 5)), shape: [rows, n] },
          excess: { data: Float32Array.from({ length: rows }, (_, r) => r * 3), shape: [rows, 1] },
          fewest: { data: Float32Array.from({ length: rows }, (_, r) => 1 + (r % 3)), shape: [rows, 1] },
        },
      }),
    }),
    test,
  );
});

test('agrees with algorithm 1: B - 2 to B slots, protected units whole where they fit', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 30 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 0, max: 40 }),
      fc.nat(3),
      fc.constantFrom(1, 3, 1000),
      (raw, per, budget, first, least) => {
        const scores = raw.map((x, i) => x + i / 64);
        const n = scores.length;
        const forced = Array.from({ length: Math.min(first, n) }, (_, i) => i);
        const room = Math.max(budget, forced.length);
        const groups = Array.from({ length: Math.ceil(n / per) }, (_, u) =>
          scores.flatMap((_s, i) => (Math.floor(i / per) === u ? [i] : [])),
        );
        const means = groups.map((g) => Math.fround(g.reduce((a, i) => a + scores[i], 0) / g.length));
        const sinks = scoreTransform('sinks', {}, ({ ops, scores: s }) => ({
          scores: s,
          forced: ops.from({ data: Float32Array.from(scores, (_, i) => Number(i < first)), shape: [1, n] }),
        }))();
        const { kept = [] } = apply(compose(sinks, runs({ size: per }), branchDissolution({ least })), {
          scores: [scores],
          budget: room,
        });
        expect(kept[0]).toEqual(dissolutionOracle(groups, means, scores, Math.min(room, n), forced, least));
        if (room < n) {
          expect(kept[0].length).toBeLessThanOrEqual(room);
          expect(kept[0].length).toBeGreaterThanOrEqual(Math.min(room, 1));
          if (least <= 3) expect(kept[0].length).toBeGreaterThanOrEqual(room - least + 1);
        }
      },
    ),
    { numRuns: 100 },
  );
});

test.each([
  ['least must be', () => branchDissolution({ least: 0 })],
  ['protect must be', () => branchDissolution({ protect: 'all' as 'units' })],
])('%s checked', (sentence, make) => {
  expect(make).toThrow(sentence);
});
test('without units there is nothing to dissolve', () => {
  const plain = compose as (...pieces: unknown[]) => Piece; // with its types it does not compile
  expect(() => plain(sum(), branchDissolution())).toThrow(
    "'branchDissolution' needs unit scores, but 'sum' before it leaves weights (scores of at least 0)",
  );
  expect(() => apply(branchDissolution(), { scores: [[1, 2]], budget: 1 })).toThrow(
    'branchDissolution: needs units, such as trunks() or sentences(), got slots only',
  );
});
