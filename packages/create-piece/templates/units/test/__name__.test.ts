import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compose, selector } from '@kv/core';
import { apply } from '@kv/cpu';
import { each, unitLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(unitLaws(__camel__({ size: 3 })), test);

const wholeUnits = selector('wholeUnits', {}, ({ ops, scores, units, unitScores, budgets }) =>
  ops.select(units && unitScores ? ops.take(unitScores, units.of) : scores, budgets),
);
const scores = fc.array(
  fc.integer({ min: 0, max: 60 }).map((x) => x * 12),
  { minLength: 1, maxLength: 20 },
); // means of 1 to 4 of them are exact

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(scores, fc.integer({ min: 1, max: 4 }), fc.nat(20), (row, size, budget) => {
      const { kept } = apply(compose(__camel__({ size }), wholeUnits()), { scores: [row], budget });
      expect(kept).toEqual([oracle(row, size, budget)]);
    }),
  );
});

test('a size that is no positive whole number is an error', () => {
  expect(() => __camel__({ size: 0 })).toThrow('size');
});
