import fc from 'fast-check';
import ndarray from 'ndarray';
import { expect, test } from 'vitest';
import { apply } from '@kv/cpu';
import { each, transformLaws } from '@kv/laws';
import { __camel__ } from '../src/index.ts';
import { oracle } from './__name__.oracle.ts';

each(transformLaws(__camel__()), test);

const sizes = fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 9 }));
const scored = sizes.chain(([rows, slots]) =>
  fc
    .array(fc.float({ min: -100, max: 100, noNaN: true }), { minLength: rows * slots, maxLength: rows * slots })
    .map((data) => ({ data, shape: [rows, slots] })),
);

test('agrees with the float64 oracle', () => {
  fc.assert(
    fc.property(scored, (scores) => {
      const want = oracle(ndarray(Float64Array.from(scores.data), scores.shape)).data;
      const got = apply(__camel__(), { scores }).scores.data;
      expect(got.length).toBe(want.length);
      want.forEach((score, i) => expect(Math.abs(got[i] - score)).toBeLessThanOrEqual(1e-4));
    }),
  );
});
