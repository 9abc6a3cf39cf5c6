import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compose, mandatory, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, transformLaws } from '@kv/laws';
import { entropyGate } from '../src/index.ts';
import { entropyGateOracle } from './chunks.oracle.ts';

const topK = selector('topK', {}, ({ ops, scores, budgets, ...masks }) => ops.select(scores, budgets, masks));
describe.each(
  [entropyGate({ size: 3, low: 1 }), entropyGate({ size: 4, low: 2 })].map((piece) => [piece.label, piece] as const),
)('%s', (_, piece) => {
  each(transformLaws(piece, { runs: 25 }), test);
});

test('with topK it keeps what the greedy pass of kvpress keeps, at every budget', () => {
  fc.assert(
    fc.property(
      fc
        .array(
          fc.array(
            fc.integer({ min: -40, max: 90 }).map((x) => x / 8),
            { minLength: 1, maxLength: 30 },
          ),
          { minLength: 1, maxLength: 2 },
        )
        .filter((rows) => rows.every((row) => row.length === rows[0].length)),
      fc.integer({ min: 2, max: 6 }),
      fc.nat(4),
      fc.nat(30),
      (rows, size, cut, budget) => {
        const n = rows[0].length,
          low = 1 + (cut % (size - 1)),
          summed = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0)),
          B = Math.max(1, Math.min(budget, n)),
          want = entropyGateOracle(summed, size, low, B);
        fc.pre(want !== undefined); // a median that depends on rounding
        const { kept } = apply(compose(entropyGate({ size, low }), topK()), {
          scores: rows,
          budget: B,
          at: { kvHeads: rows.length, aligned: true },
        });
        for (const set of kept!) expect(set).toEqual(want);
      },
    ),
    { numRuns: 200 },
  );
});
test('a spiky chunk is cut, a coherent one stays whole, and what was left over fills the budget', () => {
  const scores = [[9, 0, 0, 0, 4, 4, 4, 4, 1, 1, 0, 0]]; // means 2.25, 4 and 0.5: the first chunk is good and spiky
  const kept = (budget: number) =>
    apply(compose(entropyGate({ size: 4, low: 1 }), topK()), { scores, budget }).kept![0];
  expect(kept(4)).toEqual([4, 5, 6, 7]);
  expect(kept(5)).toEqual([0, 4, 5, 6, 7]);
  expect(kept(7)).toEqual([0, 4, 5, 6, 7, 8, 9]);
  expect(kept(10)).toEqual([0, 1, 4, 5, 6, 7, 8, 9, 10, 11]);
});
test('of equal slots the lower ones are the best of a chunk', () => {
  expect(
    apply(compose(entropyGate({ size: 4, low: 1 }), topK()), {
      scores: [[9, 9, 0, 0, 5, 5, 5, 5, 1, 1, 1, 0]],
      budget: 6,
    }).kept![0],
  ).toEqual([0, 4, 5, 6, 7, 8]);
});
test('a gate that cuts nothing leaves whole chunks in order', () => {
  expect(
    apply(compose(entropyGate({ size: 2, low: 2 }), topK()), { scores: [[9, 0, 4, 4, 1, 1]], budget: 4 }).kept![0],
  ).toEqual([0, 1, 2, 3]);
});
test('forced slots stay, and count as the best of the layer + 1', () => {
  const scores = [[1, 1, 1, 1, 5, 5, 5, 5, 0, 0, 0, 0]],
    ordered = (forced: number) =>
      compose(mandatory({ sinks: 0, recent: forced }), entropyGate({ size: 4, low: 2 }), topK());
  expect(apply(ordered(0), { scores, budget: 5 }).kept![0]).toEqual([0, 4, 5, 6, 7]);
  expect(apply(ordered(4), { scores, budget: 6 }).kept![0]).toEqual([4, 5, 8, 9, 10, 11]);
  // 6 + 6 of 4 slots: a good chunk, and spiky
  expect(apply(ordered(2), { scores, budget: 6 }).kept![0]).toEqual([4, 5, 6, 7, 10, 11]);
});
describe('options are checked', () => {
  test.each([
    ['size', () => entropyGate({ size: 0 })],
    ['size', () => entropyGate({ size: 10.5 })],
    ['low', () => entropyGate({ low: 0 })],
  ])('%s', (option, make) => {
    expect(make).toThrow(new RegExp(`^entropyGate: ${option} must be `));
  });
});
